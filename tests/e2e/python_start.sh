#!/bin/bash
# Python ranks that are forked from an interpreter which has imported for them: their program sees what it sees in one of its
# own, they end as any, and where they cannot be the same they start by themselves, with a sentence.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/python_start/common.sh"
numpy=yes
$python -c 'import numpy' 2>/dev/null || { numpy=no && echo "skipped: what numpy sees, which is not installed"; }

same auto "" $python "$probes/probes.py" x "two words"
export PROBE_QUICK=1
same auto "" $python -X dev -X faulthandler -X utf8 -W ignore -O -B -s -E "$probes/probes.py"
same auto "" $python -I "$probes/probes.py"
PYTHONHASHSEED=5 PYTHONWARNINGS=ignore LC_ALL=C same auto "" $python -bb -d "$probes/probes.py"
cp "$probes/probes.py" probed.py
printf '#!%s -u\n' $python | cat - probed.py >script && chmod +x script
same auto "" ./script an argument
$python -m venv --without-pip venv && same auto "" venv/bin/python "$probes/probes.py"
# As conda has it: an interpreter of its own prefix, whose packages may be links.
mkdir -p conda/bin conda/lib conda/conda-meta
cp "$(realpath $python)" conda/bin/
cp -rs "$(dirname "$($python -c 'import os; print(os.__file__)')")" conda/lib/ && rm -rf conda/lib/*/dist-packages
ln -sf "$(basename "$(realpath $python)")" conda/bin/python
same auto "" conda/bin/python "$probes/probes.py"
for version in 3.8 3.9 3.10 3.12 3.13; do
    other=$(ls -d "$installed"/$version.*/bin/python 2>/dev/null | tail -1)
    [ -n "$other" ] || other=$(command -v python$version 2>/dev/null)
    if [ -n "$other" ] && [ "$(head -c 2 "$other")" != "#!" ]; then
        same auto "" "$other" "$probes/probes.py"
    else
        echo "skipped: Python $version, which is not installed"
    fi
done
# Programs that run others: profilers and debuggers.
printf 'import json\ndef work():\n    return json.dumps([1])\nprint("worked", work())\n' >program.py
for tool in "cProfile -s name" "pdb -c continue -c quit" "trace --count -C counts" "runpy"; do
    for way in off json; do
        fresh
        [ "$tool" = runpy ] && tool="runpy program"
        launch --preload $way -- $python -m ${tool%% program} $([ "${tool%% *}" = runpy ] && echo program || echo program.py) </dev/null
        echo "exit code $?" >tool-$way
        grep -E "worked|program\.py:" run/generation-0/rank-0/stdout | sed -E 's/[0-9]+\.[0-9]{3}/T/g' >>tool-$way
        grep -q "trainer.preload" err.log && fail "$tool starts by itself"
    done
    cmp -s tool-off tool-json && grep -q worked tool-off || fail "$tool: $(diff tool-off tool-json)"
done
same json,numbers --order-differs $python -m probed
same json,numbers --order-differs $python -c "import probed; probed.main()"
unset PROBE_QUICK

# Ends: uncaught errors with their traceback, exit codes, signals; each like the other.
ends() {
    local way name=$1
    printf 'import json\nimport os\n%s\n' "$2" >ends.py
    for way in off auto; do
        fresh
        launch --preload $way -- $python ends.py
        echo "$?" >"end-$way"
        cat run/generation-0/rank-0/{stderr,stdout} | sed 's/thread 0x[0-9a-f]*/thread/' >>"end-$way"
    done
    cmp -s end-off end-auto || fail "$name ends otherwise: $(diff end-off end-auto)"
}
ends "an error" 'def f():
    raise ValueError("deep")
f()'
ends "a text as exit code" 'raise SystemExit("said")'
ends "a number" 'os._exit(9)'
ends "a signal" 'os.kill(os.getpid(), 11)'
ends "a syntax error" 'x = ='
ends "an interrupt" 'os.kill(os.getpid(), 2)'
ends "an excepthook" 'import sys
sys.excepthook = lambda *a: print("hooked", a[0].__name__)
raise KeyError(1)'
ends "a fault with faulthandler" 'import faulthandler, sys
faulthandler.enable()
sys.stdout.write("before ")
faulthandler._sigabrt()'

# What differs between ranks and was read by an import: those ranks start by themselves.
site=$($python -c 'import site; print(site.getusersitepackages())')
mkdir -p "$site"
with_module() { printf '%s\n' "$2" >"$site/$1.py" && printf 'import %s\nprint("ran")\n' "$1" >uses.py; }
# by_itself WHAT SENTENCE: two ranks of uses.py; those that cannot be forked say so.
by_itself() {
    fresh
    launch --preload auto --nproc-per-node 2 -- $python uses.py || fail "$1: exit code $?"
    contains "$1" err.log "$2"
    expect "ranks that ran: $1" 2 "$(cat run/generation-0/rank-*/stdout | grep -c '^ran$')"
}
with_module reads_rank 'import os; rank = os.environ.get("RANK")'
by_itself "a rank read at import" "RANK, which differs between ranks or starts, was read by \`import reads_rank\`"
with_module reads_in_c 'import ctypes; getenv = ctypes.CDLL(None).getenv; getenv.restype = ctypes.c_char_p; getenv(b"RANK")'
by_itself "a rank read in C" "RANK, which differs between ranks or starts, was read by \`import reads_in_c\`"
with_module lists 'import os; everything = dict(os.environ)'
by_itself "an environment that was listed" "differs between ranks"
with_module lists_some 'import os; some = {k: v for k, v in os.environ.items() if k.startswith("NOBODYS_")}'
fresh
launch --preload auto --nproc-per-node 2 -- $python uses.py || fail "exit code $?"
grep -q "trainer.preload" err.log && fail "a list of names that nobody has keeps ranks apart: $(cat err.log)"
expect "interpreters, where names with a prefix were looked for" 1 "$(forked)"
with_module fine 'x = 1'
echo 'import os; os.environ.get("RANK")' >"$site/usercustomize.py"
by_itself "a rank read at the interpreter's start" "RANK, which differs between ranks or starts, is named in $site/usercustomize.py"
echo 'import sys; sys.settrace(lambda *a: None)' >"$site/usercustomize.py"
by_itself "an interpreter that is watched" "a debugger or profiler watches the interpreter from its start on"
rm "$site/usercustomize.py"
with_module opens_socket 'import socket; kept = socket.socketpair()'
by_itself "a socket" "\`import opens_socket\` opened a socket"
with_module opens_device 'kept = open("/dev/full")'
by_itself "a device" "opened the device /dev/full"
with_module makes_thread 'import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()'
by_itself "a thread" "\`import makes_thread\` made 1 threads that stay"
with_module makes_process 'import subprocess; kept = subprocess.Popen(["sleep", "60"])'
by_itself "a process" "started a process"
with_module shares_memory 'import mmap; kept = mmap.mmap(-1, 4096)'
by_itself "shared memory" "mapped memory that is shared"
with_module dies 'import os; os.kill(os.getpid(), 9) if os.environ.get("WARM") != "no" and os.getppid() != 1 and not os.path.exists("died") and not open("died", "w").close() else 0'
by_itself "an import that kills its interpreter" "the interpreter that was to import for them ended"
with_module prints 'print("printed at import")'
fresh
launch --preload auto --nproc-per-node 2 -- $python uses.py || fail "exit code $?"
expect "what an import prints, in every rank" "$(printf 'printed at import\nran')" "$(cat run/generation-0/rank-1/stdout)"
printf 'def print_exc(): pass\n' >traceback.py # which logging imports, and finds beside the script
printf 'import logging\nprint("ran")\n' >uses.py
by_itself "a file beside the script that hides a module" "traceback.py, which is no installed package"
rm traceback.py

# The interpreter is lost between two generations: one fresh start, and the job goes on.
cat >twice.py <<'END'
import json
import os, time
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    while not os.path.exists("go"):
        time.sleep(0.02)
    os._exit(1)
print("second start")
END
for signal in KILL STOP; do
    fresh
    rm -f go
    launch --preload auto --nproc-per-node 2 --max-restarts 1 -- $python twice.py </dev/null &
    job=$!
    eventually "an interpreter that has imported" eval '[ -n "$(pid_of_interpreter 2>/dev/null)" ]'
    interpreter=$(pid_of_interpreter)
    [ $signal = KILL ] || grep -q "State:.*S" /proc/"$interpreter"/status || fail "the interpreter does not sleep"
    kill -$signal "$interpreter"
    touch go
    wait $job || fail "exit code $? after the interpreter had $signal"
    expect "ranks of the second start" 2 "$(cat run/generation-1/rank-*/stdout | grep -c "second start")"
    contains "what is said of it" err.log "the warm interpreter $([ $signal = KILL ] && echo "" || echo "did not answer")"
    [ -e /proc/"$interpreter" ] && fail "the interpreter outlived the job"
done
# A restart is forked again where nothing happened to it.
fresh
touch go
launch --preload auto --nproc-per-node 2 --max-restarts 1 -- $python twice.py || fail "exit code $?"
expect "imports in a job with a restart" 1 "$(forked)"
grep -q "trainer.preload" err.log && fail "a rank of the restart started by itself"

# Somebody stops the job while it imports: at once, and nothing is left.
with_module takes_long 'import time; open("importing", "w").close(); time.sleep(60)'
fresh
timeout 100 "$AUTOLAUNCH" --log-dir run --preload auto -- $python "$work/uses.py" >out.log 2>err.log </dev/null &
job=$!
eventually "a long import" [ -e importing ]
kill -TERM "$(pgrep -P $job)"
wait $job
expect "exit code of a job that was stopped while it imported" 143 "$?"
pgrep -f "^$python $work/uses.py" >/dev/null && fail "an interpreter outlived its job"
[ -s run/generation-0/rank-0/stdout ] && fail "a rank ran after the stop"

# A run with auto looks into files of the user's, records what it found, and the next goes by that without being asked.
$python "$probes/walk_test.py" "$WALK" >walk.log 2>&1 || fail "the walk through files"
mkdir -p pkg
printf 'import json\nfrom .part import work\n' >pkg/__init__.py
printf 'import decimal\ndef work():\n    return json.dumps([1])\nimport json\n' >pkg/part.py
printf 'import pkg\nimport csv\nprint("ran", pkg.work())\nimport logging\n' >walked.py
printf 'from . import part\nimport csv\nimport sys\nprint("ran", sys.argv[1:], __package__)\n' >pkg/run.py
for program in walked.py "-m pkg.run an-argument"; do
    says 0 "preload    nothing: " "$AUTOLAUNCH" plan -- $python $program
    fresh
    launch -- $python $program || fail "exit code $?"
    expect "interpreters that nobody has asked for" 0 "$(forked)"
    cp run/generation-0/rank-0/stdout ran-plain
    says 0 "the interpreter looks in its files" "$AUTOLAUNCH" plan --preload auto -- $python $program
    fresh
    launch --preload auto --nproc-per-node 2 -- $python $program || fail "exit code $?"
    expect "what $program prints" "$(cat ran-plain)" "$(cat run/generation-0/rank-1/stdout)"
    contains "the record of $program" run/preload.json "pkg/part.py"
    says 0 "import json; import decimal; import json; import csv" "$AUTOLAUNCH" plan -- $python $program
    fresh
    launch -- $python $program || fail "exit code $?"
    expect "interpreters of a run after one with auto" 1 "$(forked)"
    contains "what is said of it" err.log "as in an earlier run; --preload off: not"
    expect "what $program prints then" "$(cat ran-plain)" "$(cat run/generation-0/rank-0/stdout)"
    launch --preload off --log-dir run-off -- $python $program || fail "exit code $?"
    grep -q python_preloaded run-off/events.jsonl && fail "off is not off"
done
echo "os = 1" >>pkg/part.py
says 0 "pkg/part.py has changed since its last run" "$AUTOLAUNCH" plan -- $python walked.py
printf 'import json\nimport makes_process\nprint("ran")\n' >trouble.py
with_module makes_process 'import subprocess; kept = subprocess.Popen(["sleep", "60"])'
fresh
launch --preload auto -- $python trouble.py || fail "exit code $?"
says 0 "nothing: not asked for; with --preload auto: \`import makes_process\` started a process" "$AUTOLAUNCH" plan -- $python trouble.py
printf 'x = 1 + 1\nimport json\n' >none.py
fresh
launch --preload auto -- $python none.py || fail "exit code $?"
contains "a program without first imports" err.log "every rank starts by itself: the program does not begin with imports of installed packages (none.py:1: it is no import)"
chmod 777 "$XDG_STATE_HOME/autolaunch/preload"
fresh
launch --preload auto -- $python walked.py || fail "exit code $?"
says 0 "preload" "$AUTOLAUNCH" plan -- $python walked.py
chmod 700 "$XDG_STATE_HOME/autolaunch/preload"

# What cannot be done is said, before anything starts or beside the plan.
fresh
says 65 "is no Python program" "$AUTOLAUNCH" run --preload torch -- sleep 1
says 64 "expected auto, off or modules" "$AUTOLAUNCH" run --preload "not a module" -- $python twice.py
says 0 "every rank starts by itself: the program is no Python program" "$AUTOLAUNCH" plan --preload auto -- sleep 1
says 0 "import json; import os; import time: as in the last run; no more: twice.py:3: it is no import" "$AUTOLAUNCH" plan --preload auto -- $python twice.py
fresh
launch --preload no_such_module -- $python ends.py
contains "a module that is not there" err.log "No module named 'no_such_module'"

# What a package will import at its first use in each rank, as torch 2 its compiler with the first optimizer.
mkdir -p theirs/torch/optim theirs/torch/_dynamo
echo 'from . import optim' >theirs/torch/__init__.py
touch theirs/torch/optim/__init__.py theirs/torch/_dynamo/__init__.py
printf 'print("ran")\n' >uses.py
for modules in torch torch,torch._dynamo; do
    fresh
    PYTHONPATH=$work/theirs launch --preload $modules -- $python uses.py || fail "exit code $? with $modules"
    expect "modules that come late, with $modules" "$([ $modules = torch ] && echo 1 || echo 0)" \
        "$(grep -c 'torch._dynamo follows in each rank, at its first use' err.log)"
    grep -q "trainer.preload" err.log && fail "a rank with $modules started by itself"
    expect "the same in events.jsonl, with $modules" "$([ $modules = torch ] && echo 1 || echo 0)" "$(grep -c '"late":"torch._dynamo"' run/events.jsonl)"
done

# torch, with the generators of ranks apart.
if $python -c 'import torch' 2>/dev/null; then
    printf 'import torch\nprint(torch.rand(1).item(), torch.get_num_threads())\n' >draws.py
    fresh
    launch --preload auto --nproc-per-node 2 -- $python draws.py || fail "exit code $? with torch"
    expect "interpreters that imported torch" 1 "$(forked)"
    cmp -s run/generation-0/rank-0/stdout run/generation-0/rank-1/stdout && fail "ranks draw the same with torch"
else
    echo "skipped: torch, which is not installed for $python"
fi
nothing_left
