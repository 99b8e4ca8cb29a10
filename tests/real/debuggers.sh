#!/bin/bash
# Debuggers of PyPI at a real terminal, each to its end: pdb under torch.distributed.breakpoint(), ipdb, pudb. And a rank of
# another node, whose autolaunch has no terminal.
#
#   REAL_PYTHON=/path/to/venv/bin/python tests/real/debuggers.sh     pip install torch ipdb pudb
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${AUTOLAUNCH:=autolaunch}" "${AUTOLAUNCH_BINARY_DIR:=}"
. "$here/../e2e/lib.sh"
[ -n "${REAL_PYTHON:-}" ] || skip "no Python environment was named: python3 -m venv V && V/bin/pip install torch ipdb pudb, and REAL_PYTHON=V/bin/python"
export HISTFILE= AUTOLAUNCH PYTHON_EXEC=$REAL_PYTHON PYTHONUNBUFFERED=1 GLOO_SOCKET_IFNAME=lo CUDA_VISIBLE_DEVICES=
export TERMINAL_LIMIT=${REAL_LIMIT:-120} XDG_CONFIG_HOME=$work/config TERM=xterm
mkdir -p "$work/config/pudb"
# Nobody is to be welcomed, and the theme is not asked for.
printf '[pudb]\nseen_welcome = e999\ncurrent_stack_frame = top\n' >"$work/config/pudb/pudb.cfg"
ran=0

# debugged NAME MODULE: NAME.py under --debug-rank 1; what is typed and seen is stdin. The other rank's lines are in its file alone.
debugged() {
    "$REAL_PYTHON" -c "import importlib.util as u, sys; sys.exit(u.find_spec('$2') is None)" 2>/dev/null ||
        { printf 'skipped  %-20s no %s in %s\n' "$1" "$2" "$REAL_PYTHON"; cat >/dev/null; return 0; }
    rm -rf run
    { printf 'run stty rows 40 cols 120; "$AUTOLAUNCH" -n 2 --debug-rank 1 --log-dir run %s.py; echo "code=$?"\n' "$1"
        cat
        printf 'see end of rank 1\nsee code=0\ntype exit\n'; } >script
    python3 "$here/../e2e/terminal.py" script >screen.log 2>script.log || { failed "$1: $(cat script.log) $(tail -c 2000 screen.log)"; return; }
    ! grep -q "end of rank 0" screen.log || { failed "$1: rank 0 is on the screen"; return; }
    grep -q "end of rank 0" run/generation-0/rank-0/stdout || { failed "$1: rank 0 did not go on"; return; }
    ran=$((ran + 1))
    printf 'ok       %s\n' "$1"
}

cat >torch_breakpoint.py <<'END'
import os, torch, torch.distributed as dist
from datetime import timedelta
dist.init_process_group("gloo", timeout=timedelta(hours=1))
value = 6 * 7
dist.breakpoint(1)
dist.barrier()
print("end of rank", dist.get_rank(), flush=True)
END
debugged torch_breakpoint torch <<'END'
see (Pdb)
type up
see (Pdb)
type p value
see 42
type c
END

cat >with_ipdb.py <<'END'
import os
value = 6 * 7
if os.environ["RANK"] == "1":
    import ipdb
    ipdb.set_trace()
print("end of rank", os.environ["RANK"], flush=True)
END
debugged with_ipdb ipdb <<'END'
see ipdb>
type p value
see 42
type c
END

cat >with_pudb.py <<'END'
import os
value = 6 * 7
if os.environ["RANK"] == "1":
    import pudb
    pudb.set_trace()
print("end of rank", os.environ["RANK"], flush=True)
END
debugged with_pudb pudb <<'END'
see Command line
see >>>
keys c
END

cat >plain.py <<'END'
print("ran", flush=True)
END
# Two nodes by hand: the one with rank 1 has no terminal.
export AUTOLAUNCH_JOB_KEY=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
node() { timeout 60 setsid -w "$AUTOLAUNCH" --nnodes 2 --node-rank "$1" --master-addr 127.0.0.1 --rdzv-id "$E2E_MARK" -n 1 --debug-rank 1 \
    --log-dir two plain.py >"node$1.log" 2>&1 </dev/null; }
node 0 & first=$!
code=0
node 1 || code=$?
head=0
wait $first || head=$?
unset AUTOLAUNCH_JOB_KEY
if [ $code -eq 65 ] && [ $head -ne 0 ] && grep -q "rank 1 is to get the terminal, but its node's autolaunch has none" node1.log &&
    grep -q "rank 1 is to get the terminal, but its node's autolaunch has none" node0.log && ! grep -rq ran two/generation-0 2>/dev/null; then
    ran=$((ran + 1))
    echo "ok       a rank of another node is refused in words, on both"
else
    failed "a rank of another node: codes $head and $code: $(cat node0.log node1.log)"
fi
[ $((ran + failures)) -gt 0 ] || skip "none of the debuggers is installed"
count_failures
