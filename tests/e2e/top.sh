#!/bin/bash
# `autolaunch top`: a real job on a real terminal, keys, resizes, its end and its death; runs that are over; files of others.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
command -v python3 >/dev/null || skip "no python3"
export TERM=xterm LC_ALL=C.UTF-8
unset NO_COLOR

# at_screen WHAT COMMAND...: the script is this function's stdin; leaves screen.log
at_screen() {
    local what=$1
    shift
    cat >script
    timeout 120 python3 "$here/screen.py" script "$@" >screen.log 2>script.log || fail "$what"
}

# Two ranks that take steps until they are told to end.
cat >steps.py <<'END'
import os, sys, time
import autolaunch
rank = int(os.environ["RANK"])
print(f"words of {rank} \x1b[31min red\x1b[0m and \x1b]0;a title\x07 done", file=sys.stderr, flush=True)
for step in range(1, 2000):
    time.sleep(0.05)
    autolaunch.report_step(step, total_steps=5000, loss=2.5)
    if os.path.exists("end"):
        break
END
start() { # leaves $job
    rm -rf run end
    "$AUTOLAUNCH" -n 2 --log-dir run "$@" steps.py >job.log 2>&1 </dev/null &
    job=$!
    eventually "the first steps" grep -qs '"event":"step","rank":1' run/events.jsonl
}

# A job that ends while it is watched.
start
at_screen "a running job" "$AUTOLAUNCH" top run <<'END'
size 24 80
see running
see RANK NODE
see 2 running
see ── rank 0 stderr
see words of 0 in red and  done
keys j
see words of 1 in red and  done
keys o
see ── rank 1 stdout
keys n
see x2
keys n
keys h
see any key goes back
keys x
gone any key goes back
quiet 3000 2
size 40 132
see NOTE
size 20 60
see needs 80 x 10: here 60 x 20
size 24 80
see RANK NODE
keys \eOB
do touch end
see ended: succeeded (0)
see 2 done
keys q
end 0
END
wait "$job" || fail "the job: $(cat job.log)"

# Nobody runs it any more, and no end is in its events: as of a node that was switched off.
start
cp -a run dead
touch end
wait "$job" || fail "the job: $(cat job.log)"
at_screen "a killed job" "$AUTOLAUNCH" top dead <<'END'
size 24 100
see no end is recorded, and no autolaunch of this job runs here
keys q
end 0
END
"$AUTOLAUNCH" top dead --once --json >out.log 2>err.log || fail "once: $(cat err.log)"
json '"killed" in d["doubt"] and len(d["ranks"]) == 2 and d["ranks"][1]["step"] >= 1 and d["step"] >= 1'

# The terminal goes away; a signal comes; Ctrl-C.
for end in "hang" "keys $(printf '\003')"; do
    at_screen "$end" "$AUTOLAUNCH" top run <<END
size 24 80
see RANK
$end
end 0
END
done

# Any moment of a run that is over.
cat >replay.py <<'END'
import json, sys
def line(ms, **fields):
    return json.dumps({"time": f"2026-01-31T12:{ms // 60000:02}:{ms // 1000 % 60:02}.{ms % 1000:03}Z", "generation": 0, **fields}, separators=(",", ":"))
out = [line(0, event="job_started", job_name="gpt", run_id="4711", run_dir="/r", hostname="n1", node_count=1, world_size=2)]
out += [line(100, event="rank_started", rank=r, local_rank=r, pid=7 + r) for r in (0, 1)]
out += [line(200, event="generation_started")]
out += [line(1000 * s, event="step", rank=r, step=s, total_steps=100, loss=2.5) for s in range(1, 101) for r in (0, 1)]
out += [line(101000, event="rank_exited", rank=1, local_rank=1, pid=8, exit_code=3, asked_to_stop=False, ran_seconds=1)]
out += [line(102000, event="job_ended", exit_code=3, outcome="failed", restarts=0, ran_seconds=102)]
print("\n".join(out))
END
mkdir over
python3 replay.py >over/events.jsonl
at_screen "a replay" "$AUTOLAUNCH" top over --replay <<'END'
size 24 80
see stopped x1
see no rank has started yet
keys \eOC
see step 1/100
keys \eOC
see step 2/100
keys \eOD
see step 1/100
keys \eOF
see ended: failed (3)
see 1 failed
keys \eOH
see no rank has started yet
keys +++++
keys  
see playing x32
see step 6
keys  
see stopped
keys q
end 0
END

# Lines of anybody; a terminal is told nothing by them.
mkdir hostile
{
    cat over/events.jsonl | head -n 5
    head -c 6000000 /dev/zero | tr '\0' 'x'
    echo
    printf '%s\n' 'no JSON' '{"time":"2026-01-31T12:00:05.000Z","generation":0,"event":"warning","text":"\u001b]0;title\u0007\u001b[2Jcleared"}'
    python3 -c 'print("{\"time\":\"2026-01-31T12:00:05.000Z\",\"generation\":0,\"event\":\"warning\",\"text\":" + "[" * 200000 + "]" * 200000 + "}")'
    printf '{"time":"2026-01-31T12:00:05.000Z","generation":0,"event":"st'
} >hostile/events.jsonl
ln -s /etc/passwd hostile/events.node-1.jsonl
mkfifo hostile/events.node-2.jsonl
mkdir -p hostile/generation-0/rank-0
mkfifo hostile/generation-0/rank-0/stderr
at_screen "a hostile run" "$AUTOLAUNCH" top hostile <<'END'
size 30 120
see cleared
see missing: events.jsonl: 2 lines cannot be understood
see generation-0/rank-0/stderr is not a regular file
keys q
end 0
END
grep -q title screen.log && fail "a title"

# Without a terminal, without colours, without UTF-8.
"$AUTOLAUNCH" top over >out.log 2>err.log </dev/null || fail "without a terminal: $(cat err.log)"
contains "what is said" err.log "stdout is no terminal: the job is shown once"
contains "the table" out.log "exited with code 3"
LC_ALL=C "$AUTOLAUNCH" top over --once | LC_ALL=C grep -q '[^ -~]' && fail "bytes that are not ASCII"
printf 'size 24 80\nsee cannot place its cursor: the job is shown once\nend 0\n' >script
TERM=dumb timeout 60 python3 "$here/screen.py" script "$AUTOLAUNCH" top over >screen.log 2>script.log || fail "TERM=dumb"
"$AUTOLAUNCH" top over --once --json >out.log || fail "--json"
json 'd["format"] == 1 and d["state"] == "ended" and d["exit_code"] == 3 and d["ranks"][1]["note"] == "exited with code 3"'

says 66 "nowhere is no run directory of a job" "$AUTOLAUNCH" top nowhere
mkdir empty
says 66 "empty is no run directory: no events.jsonl is in it" "$AUTOLAUNCH" top empty
says 64 "top takes one run or job" "$AUTOLAUNCH" top a b
says 64 "--json goes with --once" "$AUTOLAUNCH" top over --json
says 64 "exclude each other" "$AUTOLAUNCH" top over --once --replay
says 69 "--replay needs one that keys are pressed at" "$AUTOLAUNCH" top over --replay

# What this machine does not see of the job its head tells: all but head.json is elsewhere.
start
mkdir elsewhere && chmod 700 elsewhere && cp -p run/head.json elsewhere/
at_screen "through the head" "$AUTOLAUNCH" top elsewhere <<'END'
size 24 80
see running
see 2 running
see words of 0 in red
keys j
see words of 1 in red
keys q
end 0
END
"$AUTOLAUNCH" top elsewhere --once --json >out.log 2>err.log || fail "through the head: $(cat err.log)"
json 'd["state"] == "running" and len(d["ranks"]) == 2 and d["gaps"] == []'
grep -q '"event":"asked","what":"top","who":"process' run/events.jsonl || fail "who looked is not recorded"
expect "lines of it" 2 "$(grep -c '"event":"asked"' run/events.jsonl)"
touch end
wait "$job" || fail "the job: $(cat job.log)"
says 68 "" "$AUTOLAUNCH" top elsewhere --once
count_failures
