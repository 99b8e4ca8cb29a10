#!/bin/bash
# autolaunch.run(): after a rank of a PyTorch job was lost the others stay in their processes, make their process group anew and
# go on with it from the newest checkpoint; at the end stands the loss of a run that nobody disturbed. PYTHON: which has torch.
. "$(dirname "$0")/lib.sh"
unset PYTHONPATH PYTHONHOME "${!OMP_@}"
python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import torch.distributed as d; assert d.is_gloo_available()' >/dev/null 2>&1 ||
    skip "no torch.distributed with gloo in $python"
export OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo
modules=torch,torch.distributed
"$python" -c 'import torch._dynamo' 2>/dev/null && modules+=,torch._dynamo # the first optimizer imports it
rank=$AUTOLAUNCH_SOURCE_DIR/tests/e2e/python_recovery.py

# job NAME RESTARTS STEPS LOSS...: three ranks
job() {
    mkdir "$work/$1.state"
    timeout 120 "$AUTOLAUNCH" --nproc-per-node 3 --max-restarts "$2" --preload $modules --log-dir "$1" -- \
        "$python" "$rank" "$work/$1.state" "${@:3}" >"$1.log" 2>"$1.err.log" </dev/null
}
ends() { cat "$1"/generation-*/rank-*/stdout | grep '^ends' | sort; }
stayed() { # NAME GENERATION
    grep '"event":"rank_started"' "$1/events.jsonl" | grep "\"generation\":$2," | grep '"stayed":true' |
        sed 's/.*"rank":\([0-9]*\).*/\1/' | sort | tr '\n' ' '
}

job calm 0 30
expect "exit code of the undisturbed run" 0 "$?"
expect "ranks that ended" 3 "$(ends calm | wc -l)"

job lost 3 30 1:8 0:15 2:22:raise
expect "exit code after three losses" 0 "$?"
expect "who stayed when rank 1 was killed" "0 2 " "$(stayed lost 1)"
expect "who stayed when rank 0 was killed" "1 2 " "$(stayed lost 2)"
expect "who stayed when rank 2 raised an error" "0 1 " "$(stayed lost 3)"
expect "the same losses" "$(ends calm)" "$(ends lost)"
contains "who stayed goes on, in its own log" lost/generation-0/rank-2/stdout "begins at step 8 in call 2, generation 1"
contains "a loss by an error" lost.err.log "shard 7 is truncated"
pid=$(sed -n 's/^begins .* pid //p' lost/generation-1/rank-1/stdout | sort -u)
expect "processes of a rank that stayed" 1 "$(wc -w <<<"$pid")"

job over 0 12 1:6
expect "exit code without restarts" 137 "$?"

# Killed at random moments, PYTHON_RECOVERY_KILLS times: in collectives, in the optimizer, in a save, in recovery itself.
kills=${PYTHON_RECOVERY_KILLS:-0}
if [ "$kills" -gt 0 ]; then
    job chaos_calm 0 $((kills * 60))
    STEP_SECONDS=0.01 job chaos "$kills" $((kills * 60)) &
    chaos=$!
    for ((i = 0; i < kills; i++)); do
        sleep 0.$((RANDOM % 9 + 1))
        eventually "a rank to kill" eval 'pid=$(grep "\"event\":\"rank_started\",\"rank\":$((RANDOM % 3))," chaos/events.jsonl 2>/dev/null |
            tail -n 1 | sed "s/.*\"pid\":\([0-9]*\).*/\1/") && [ -n "$pid" ] && kill -9 "$pid" 2>/dev/null'
    done
    wait $chaos
    expect "exit code after $kills kills" 0 "$?"
    expect "the same losses after $kills kills" "$(ends chaos_calm)" "$(ends chaos)"
    echo "$kills kills: $(grep -c '"event":"generation_failed"' chaos/events.jsonl) generations were lost," \
        "$(grep -c '"stayed":true' chaos/events.jsonl) ranks stayed"
fi

printf 'import autolaunch\nprint(autolaunch.run(lambda: "alone"))\n' >alone.py
PYTHONPATH=$(dirname "$AUTOLAUNCH")/../share/autolaunch/python
[ -d "$PYTHONPATH" ] && expect "run() without autolaunch" alone "$(PYTHONPATH=$PYTHONPATH "$python" alone.py)"
nothing_left
echo "passed"
