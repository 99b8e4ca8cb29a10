#!/bin/bash
# At a real terminal: Ctrl-C, Ctrl-Z, a rank that reads what is typed, a rank that is debugged.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
command -v python3 >/dev/null || skip "no python3"
export HISTFILE= AUTOLAUNCH E2E_MARK

# at_terminal WHAT: the script is this function's stdin; leaves screen.log
at_terminal() {
    rm -rf run
    cat >script
    python3 "$here/terminal.py" script >screen.log 2>script.log || fail "$1"
}

# Ctrl-C is SIGINT at the ranks: what Python does about it runs.
cat >saves.py <<'END'
import os, sys, time
rank = os.environ["RANK"]
try:
    print("up", rank, flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.3)
    open(f"saved-{rank}", "w").write("saved")
    sys.exit(0)
END
at_terminal "Ctrl-C" <<'END'
run "$AUTOLAUNCH" -n 2 --log-dir run saves.py; echo "code=$?"
see up 1
key c
see code=130
type exit
END
for rank in 0 1; do expect "what rank $rank saved" saved "$(cat saved-$rank)"; done
expect "signals" "2 2" "$(grep -o '"signal":[0-9]*' run/events.jsonl | cut -d: -f2 | tr '\n' ' ' | sed 's/ $//')"

# A rank that reads the terminal has it only when it was named; Ctrl-Z and fg work for it; Ctrl-C there ends the job.
cat >asks.py <<'END'
import os, sys, time
print("rank", os.environ["RANK"], "read", repr(sys.stdin.readline()), flush=True)
time.sleep(60 if os.environ.get("STAY") else 0)
END
at_terminal "a terminal that nobody named" <<'END'
run "$AUTOLAUNCH" -n 1 --log-dir run asks.py; echo "code=$?"
see rank 0 read ''
see code=0
type exit
END
at_terminal "a named rank" <<'END'
run STAY=1 "$AUTOLAUNCH" -n 2 --stdin 1 --log-dir run asks.py; echo "code=$?"
see rank 0 read ''
type hello
see rank 1 read 'hello\n'
key c
see code=130
type exit
END
at_terminal "Ctrl-Z and fg" <<'END'
run "$AUTOLAUNCH" -n 1 --stdin 0 --log-dir run asks.py
see placed
key z
see Stopped
type echo between $((1+1))
see between 2
type fg
type after
see rank 0 read 'after\n'
type echo code=$?
see code=0
type exit
END
export AUTOLAUNCH_JOB_KEY=0123456789abcdef0123456789abcdef
cat >second_node <<'END'
"$AUTOLAUNCH" --nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --rdzv-id "$E2E_MARK" -n 1 --stdin 1 --log-dir run asks.py \
    </dev/null >second.log 2>&1
END
at_terminal "a named rank of another node" <<'END'
run (setsid bash second_node &); "$AUTOLAUNCH" --nnodes 2 --node-rank 0 --master-addr 127.0.0.1 --rdzv-id "$E2E_MARK" -n 1 --stdin 1 --log-dir run asks.py; echo "code=$?"
see placed
type from afar
see code=0
type exit
END
contains "what was typed there" run/generation-0/rank-1/stdout "rank 1 read 'from afar\\n'"
at_terminal "in the background" <<'END'
run "$AUTOLAUNCH" -n 1 --log-dir run asks.py & wait $!; echo "code=$?"
see rank 0 read ''
see code=0
type exit
END

# A debugged rank: pdb at the terminal, and the other rank's lines in its file alone.
cat >stops.py <<'END'
import os
value = 6 * 7
print("line of rank", os.environ["RANK"], flush=True)
if os.environ["RANK"] == "1":
    breakpoint()
print("end of rank", os.environ["RANK"], flush=True)
END
at_terminal "pdb" <<'END'
run "$AUTOLAUNCH" -n 2 --debug-rank 1 --log-dir run stops.py; echo "code=$?"
see (Pdb)
type p value
see 42
type c
see end of rank 1
see code=0
type exit
END
grep -q "end of rank 0" screen.log && fail "rank 0 is on the screen"
contains "rank 0's own file" run/generation-0/rank-0/stdout "end of rank 0"
code=0
setsid "$AUTOLAUNCH" -n 2 --debug-rank 1 --log-dir run2 stops.py >out.log 2>err.log </dev/null || code=$?
expect "the code without a terminal" 65 "$code"
contains "no terminal" err.log "its node's autolaunch has none"
if command -v gdb >/dev/null; then
    at_terminal "gdb" <<'END'
run "$AUTOLAUNCH" -n 1 --gdb 0 --log-dir run sh -c 'echo in gdb; exit 3'; echo "code=$?"
see (gdb)
type run
see in gdb
see exited with code 03
type quit
see code=0
type exit
END
fi

# Without a terminal's debugger a breakpoint ends the program, and the screen says what to do.
rm -rf run
"$AUTOLAUNCH" -n 2 --log-dir run stops.py >out.log 2>err.log </dev/null
contains "a breakpoint without a terminal" err.log "--debug-rank RANK gives it one"
nothing_left
echo "passed"
