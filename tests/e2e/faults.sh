#!/bin/bash
# The first screen names cause and rank of programs that fail in known ways: a part of the corpus, which tests/faults/run.py
# runs whole. And what follows: the policy, which a restart of the same job in its folder goes on with.
. "$(dirname "$0")/lib.sh"

corpus=$(dirname "$(realpath "$0")")/../faults/run.py
python3 "$corpus" --autolaunch "$AUTOLAUNCH" --show --at-least 100 --only \
    '^(cpp (throw|segv|sigkill|full_disk|descriptors|ignores_term|exit3 behind a script|no_newline)$|python (saved_in_vain|slow_end|left_early|peer_killed|all|memory)$|line (cuda_oom|nccl_watchdog)$|words (loader_segv|torchrun_child)|start )' \
    >faults.log 2>&1 || fail "the corpus"
# On four simulated nodes rank and node, from the head's screen alone, and a clean certificate of each node.
python3 "$corpus" --autolaunch "$AUTOLAUNCH" --where nodes --show --at-least 100 --only \
    '^(cpp (segv|cut_mapping)|shell hides segv|python left_early|after (gloo_closed|horovod)|node (agent killed|m1 fails first.*))$' \
    >faults.log 2>&1
case $? in
    0) ;;
    77) echo "not tried on four nodes: $(grep SKIPPED faults.log)" ;;
    *) fail "the corpus on four nodes" ;;
esac

cat >train.yaml <<'EOF'
trainer: {command: [sh, -c, "exit 3"]}
resource_management: {ranks_per_node: 1}
restart: {max_restarts: 5, on: {killed: {budget: 1}}}
EOF
run() { timeout 60 "$AUTOLAUNCH" -c train.yaml --log-dir run --rdzv-id job "$@" >out.log 2>err.log </dev/null; }
run
expect "exit code" 3 "$?"
contains "the second try is the last" err.log "no restart: failed before its first step, as the time before: a restart cannot help"
[ -e run/generation-2 ] && fail "there is a third generation"
run -- sh -c 'kill -9 $$'
expect "exit code" 137 "$?"
contains "a budget of its own" err.log "restart for killed, 1 of 1: "
run -- sh -c 'kill -9 $$'
expect "exit code" 137 "$?"
contains "the budget is the job's, over requeues" err.log "no restart: the 1 restarts for killed are used up"
echo '{' >run/restarts.json
run
expect "exit code" 73 "$?"
contains "a history that is damaged is none that is empty" err.log "restarts.json is damaged"
"$AUTOLAUNCH" plan -c train.yaml >out.log 2>err.log </dev/null
contains "the plan has the policy" out.log "restart  killed · 1 of its own"
