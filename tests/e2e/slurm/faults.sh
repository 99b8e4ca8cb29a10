#!/bin/bash
# What breaks on one node: a rank, the agent, the head, Slurm's own daemon, the network, the power. Each time the first
# failure is named on the head's screen, all ranks everywhere end, and srun's exit code says so.
. "$(dirname "$0")/lib.sh"
# SlurmdTimeout is so long that what srun and autolaunch do about a lost node comes before Slurm notices for itself.
# A job that ends with 75 is requeued by its head alone; e2e.slurm_ends has RequeueExit=75.
export CLUSTER_CONF=$'SlurmdTimeout=60\nKillWait=3\nRequeueExit=99'
start_cluster 4

# launch NODES AUTOLAUNCH'S OPTIONS...: in the background, until all ranks run
# --wait is longer than the grace periods: SIGKILL for agents that still end their ranks would be srun's code.
launch() {
    login srun -N"$1" --no-kill ${srun_wait---wait=3} autolaunch --log-dir run -c train.yaml "${@:2}" >out.log 2>err.log &
    job=$!
    eventually "ranks on all nodes" started $((2 * $1))
}
ended() {
    wait "$job"
    code=$?
}
reboot() { # HOST, whether it runs or not
    "$cluster" kill "$1" 2>/dev/null
    "$cluster" boot "$1"
    eventually "the return of $1" login srun -w "$1" true
}

test_rank_crash() {
    spec 2 "$misbehave" hang hang hang hang hang "sleep:0.5,say:loader: shard 71 is truncated,crash" hang
    one_line -N4 --
    expect "exit code" 139 "$code"
    contains "the rank, its node and how it ended" err.log "✗ rank 5 (node3, pid "
    contains "its signal" err.log "was killed by SIGSEGV"
    contains "its last lines" err.log "| loader: shard 71 is truncated"
    contains "the others" err.log "7 other ranks were stopped"
}
test_first_of_several_failures() {
    spec 2 "$misbehave" hang hang hang sleep:1,exit:4 hang hang hang sleep:1.4,exit:3
    one_line -N4 --
    expect "exit code" 4 "$code"
    contains "the first" err.log "✗ rank 3 (node2, pid "
}
test_restart_across_nodes() {
    local generation
    spec 2 "$misbehave" facts,meet,exit:0 facts,meet,exit:0 facts,meet,exit:0 facts,meet,exit:0 \
        facts,meet,exit:0 facts,meet,sleep:0.3,fail-before-generation:2:9,exit:0 facts,meet,exit:0
    one_line -N4 -- --max-restarts=3 # as torchrun: whatever fails, as often
    expect "exit code" 0 "$code"
    contains "the restart is announced" err.log "restart 1 of 3"
    for generation in 0 1 2; do
        contains "all met in generation $generation" run/generation-$generation/rank-7/stdout "all here"
        expect "the count" $generation "$(fact 7 TORCHELASTIC_RESTART_COUNT $generation)"
    done
    [ -e run/generation-3 ] && fail "there is a fourth generation"
    [ "$(fact 0 MASTER_PORT 0)" != "$(fact 0 MASTER_PORT 1)" ] || fail "the same store in two generations"
}
test_agent_killed() {
    spec 2 "$misbehave" ignore-term,stubborn-child,daemon,hang
    launch 3 restart.grace_period=1s
    kill_on node2 KILL autolaunch
    ended
    expect "exit code" 68 "$code" # the head's is the highest of the tasks
    contains "the node" err.log "✗ node2 was lost, with ranks 2-3"
}
test_agent_stopped() { # for good: its keeper ends it and its ranks, and srun does not wait
    spec 2 "$misbehave" ignore-term,stubborn-child,daemon,hang
    launch 3 restart.grace_period=1s rendezvous.lost_after=2s
    kill_on node2 STOP autolaunch
    ended
    expect "exit code" 68 "$code"
    contains "the node" err.log "✗ node2 was lost, with ranks 2-3"
    contains "what its keeper says" err.log "has not moved for 2 s"
}
test_task_killed() {
    spec 2 "$misbehave" ignore-term,stubborn-child,daemon,hang
    launch 3 restart.grace_period=1s
    kill_on node2 KILL autolaunch-keep
    ended
    expect "exit code" 137 "$code" # srun takes a task's signal before any code
}
test_head_killed() {
    spec 2 "$misbehave" ignore-term,stubborn-child,daemon,hang
    launch 3 restart.grace_period=1s
    kill_on node1 KILL autolaunch
    ended
    [ "$code" -ne 0 ] || fail "exit code 0"
    contains "what the other nodes say" err.log "✗ the head was lost"
}
test_slurmstepd_killed() { # srun never hears of it; autolaunch does, and ends what Slurm cannot reach any more
    spec 2 "$misbehave" ignore-term,stubborn-child,daemon,hang
    launch 3 restart.grace_period=1s
    kill_on node3 KILL slurmstepd
    eventually "the end of all ranks" eval '! "$cluster" left | grep -q misbehave'
    ended # by --wait
    expect "exit code" 68 "$code"
    contains "the node" err.log "✗ node3 was lost, with ranks 4-5"
    contains "the cause" err.log "(under Slurm, slurmstepd) was killed or has ended"
    contains "the outcome" err.log "failed: node3 was lost"
    reboot node3 # Slurm leaves the dead daemon's socket
}
test_slurmstepd_killed_after_a_checkpoint() { # the ranks may save, and the job can go on elsewhere
    spec 2 "$misbehave" train:0
    srun_wait='' launch 3 # the node whose end Slurm does not see ends the step, when the others have gone
    eventually "steps of all nodes" eval '[ "$(grep -l step run/events*.jsonl | wc -l)" = 3 ]'
    kill_on node3 KILL slurmstepd
    ended
    expect "exit code" 75 "$code"
    expect "ranks that saved" 6 "$(events checkpoint | grep -c '/checkpoints/last')"
    reboot node3
}
test_short_network_cut() {
    spec 2 "$misbehave" sleep:5,meet
    launch 4 rendezvous.lost_after=10s
    "$cluster" cut node3
    sleep 2
    "$cluster" heal node3
    ended
    expect "exit code" 0 "$code"
    expect "ranks that met" 8 "$(ranks_that_met run)"
}
test_network_cut() { # the node that is cut off ends its ranks by itself
    spec 2 "$misbehave" hang
    launch 4 rendezvous.lost_after=3s
    "$cluster" cut node3
    eventually "the end of ranks on node3" eval '! "$cluster" left | grep -q "^node3: .*misbehave"'
    eventually "the end of ranks elsewhere" eval '! "$cluster" left | grep -q "misbehave"'
    "$cluster" heal node3
    ended
    expect "exit code" 68 "$code"
    contains "the node" err.log "✗ node3 was lost, with ranks 4-5"
    contains "why" err.log "it has said nothing for 3 s"
    contains "the outcome" run/events.jsonl '"event":"job_ended","exit_code":68'
    contains "what the node itself says" run/events.node-2.jsonl '"event":"head_lost"'
}
test_power_cut() {
    spec 2 "$misbehave" hang
    launch 4 rendezvous.lost_after=3s
    "$cluster" kill node4
    eventually "the end of ranks elsewhere" eval '! "$cluster" left | grep -q "misbehave"'
    ended
    expect "exit code" 68 "$code"
    contains "the node" err.log "✗ node4 was lost, with ranks 6-7"
    contains "why" err.log "it has said nothing for 3 s"
    contains "the outcome" run/events.jsonl '"event":"job_ended","exit_code":68'
    reboot node4
}
test_power_cut_requeues_elsewhere() { # a batch job with a checkpoint, by its head, without the node that was lost
    spec 2 "$misbehave" checkpoint:7,hang
    echo 'slurm_config: {requeue: true}' >>train.yaml
    submit -N3 --requeue --no-kill <<<'exec srun --wait=2 autolaunch --log-dir run -c train.yaml restart.grace_period=1s rendezvous.lost_after=3s'
    eventually "checkpoints of all ranks" eval '[ "$(events checkpoint | grep -c /checkpoints/7)" = 6 ]'
    "$cluster" kill node3
    eventually "the requeue" eval '[ "$(job_field "$job" Restarts)" = 1 ]'
    contains "the node" batch.log "✗ node3 was lost, with ranks 4-5"
    contains "the outcome" run/events.jsonl '"event":"job_ended","exit_code":75'
    contains "without whom" batch.log "requeue without node3: it was lost"
    eventually "the word to Slurm" eval '[ "$(job_field "$job" ExcNodeList)" = node3 ]'
    reboot node3 # until then Slurm takes it for one that still ends the job
    eventually "the end of its completion" eval '[ "$(job_field "$job" JobState)" = PENDING ]'
    login scontrol update job="$job" StartTime=now+2 # else Slurm waits for two minutes
    eventually "the next start" eval '[ "$(job_field "$job" JobState)" = RUNNING ]'
    expect "where it runs" "node[1-2,4]" "$(job_field "$job" NodeList)"
    login scancel "$job"
    eventually "the end of the job" job_ended "$job"
}
# Two nodes of four at once, of which the job could do without one, and no others are there: Slurm would hold a requeued job that still
# has one of them.
test_two_power_cuts_requeue() {
    local node
    spec 2 "$misbehave" checkpoint:7,hang
    echo 'slurm_config: {requeue: true}' >>train.yaml
    submit -N4 --requeue --no-kill <<<'exec srun --no-kill --wait=0 autolaunch --nnodes 3:4 --log-dir run -c train.yaml restart.grace_period=1s rendezvous.lost_after=3s'
    eventually "checkpoints of all ranks" eval '[ "$(events checkpoint | grep -c /checkpoints/7)" = 8 ]'
    "$cluster" kill node3
    "$cluster" kill node4
    eventually "the requeue" eval '[ "$(job_field "$job" Restarts)" = 1 ]'
    contains "both" run/restarts.json '"node": "node3"'
    contains "both" run/restarts.json '"node": "node4"'
    for node in node3 node4; do reboot "$node"; done
    eventually "the end of its completion" eval '[ "$(job_field "$job" JobState)" = PENDING ]'
    login scontrol update job="$job" StartTime=now+1
    eventually "the next start" eval '[ "$(job_field "$job" JobState)" = RUNNING ]'
    login scancel "$job"
    eventually "the end of the job" job_ended "$job"
}
# A start that loses a node before its first checkpoint, when an earlier one had saved; srun's own task is what is killed, so
# that srun's code is 137.
test_task_killed_requeues_after_an_earlier_checkpoint() {
    echo '[ "$SLURM_RESTART_COUNT" = 1 ] || exec "$@" checkpoint:7,hang; exec "$@" hang' >rank.sh
    spec 2 sh rank.sh "$misbehave"
    echo 'slurm_config: {requeue: true}' >>train.yaml
    submit -N3 --requeue --no-kill <<<'exec srun --wait=30 autolaunch --log-dir run -c train.yaml restart.grace_period=1s'
    eventually "checkpoints of all ranks" eval '[ "$(events checkpoint | grep -c /checkpoints/7)" = 6 ]'
    kill_on node2 KILL autolaunch-keep
    eventually "the requeue" eval '[ "$(job_field "$job" Restarts)" = 1 ]'
    contains "the node" batch.log "✗ node2 was lost, with ranks 2-3"
    contains "why" batch.log "autolaunch was killed there"
    eventually "the end of its completion" eval '[ "$(job_field "$job" JobState)" = PENDING ]'
    login scontrol update job="$job" StartTime=now+1
    eventually "ranks of the next start" started 12
    kill_on node4 KILL autolaunch
    eventually "the next requeue" eval '[ "$(job_field "$job" Restarts)" = 2 ]'
    expect "ends with 75" 2 "$(events job_ended | grep -c '"exit_code":75')"
    login scancel "$job"
    eventually "the end of the job" job_ended "$job"
}
# Three of four nodes lose their power at once: the head is left, and no majority. Once Slurm knows that nobody else can go on, the job
# begins anew.
test_requeues_without_a_majority() {
    local node
    spec 2 "$misbehave" checkpoint:7,hang
    echo 'slurm_config: {requeue: true}' >>train.yaml
    submit -N4 --requeue <<'END'
#SBATCH --no-kill
srun --no-kill --wait=0 autolaunch --nnodes 1:4 --log-dir run -c train.yaml rendezvous.lost_after=2s restart.grace_period=1s
END
    eventually "checkpoints of all ranks" eval '[ "$(events checkpoint | grep -c /checkpoints/7)" = 8 ]'
    for node in node2 node3 node4; do "$cluster" kill "$node"; done
    eventually "what it waits for" grep -q "a requeue waits for proof that node2, node3, node4 cannot go on with the job" batch.log
    expect "restarts by then" 0 "$(job_field "$job" Restarts)"
    for node in node2 node3; do login scontrol update nodename="$node" state=down reason=test; done
    sleep 3
    expect "restarts while one may be alive" 0 "$(job_field "$job" Restarts)"
    login scontrol update nodename=node4 state=down reason=test
    eventually "the requeue" eval '[ "$(job_field "$job" Restarts)" = 1 ]'
    contains "who does it" batch.log "requeue: scontrol requeue $job (slurm_config.requeue)"
    login scancel "$job"
    eventually "the end of the job" job_ended "$job"
    for node in node2 node3 node4; do
        "$cluster" boot "$node"
        login scontrol update nodename="$node" state=resume
        eventually "the return of $node" login srun -w "$node" true
    done
}
# The head's node, where the batch script is, loses its power; before its successor begins a generation another agent is gone: it ends the
# job to have it started anew, and two of four are no majority for that.
test_requeues_an_end_without_a_majority() {
    [ -n "${AUTOLAUNCH_SLOW_TESTS:-}" ] || { echo "   not run: it takes 45 s; AUTOLAUNCH_SLOW_TESTS=1 runs it" && return; }
    spec 2 "$misbehave" checkpoint:7,hang
    echo 'slurm_config: {requeue: true}' >>train.yaml
    submit -N4 --requeue <<'END'
#SBATCH --no-kill
srun --no-kill --wait=0 autolaunch --nnodes 3:4 --log-dir run -c train.yaml rendezvous.lost_after=3s restart.grace_period=1s
END
    eventually "checkpoints of all ranks" eval '[ "$(events checkpoint | grep -c /checkpoints/7)" = 8 ]'
    "$cluster" kill node1
    eventually "another head" grep -q '"event":"head_changed"' run/events.jsonl
    eventually "where it is" eval '! grep -q "\"node1\"" run/head.json'
    sleep 3.5 # of the 5.5 s that it waits for node1's ranks; it holds events back once it has heard of no majority for lost_after
    kill_on "$(sed -n 's/.*"hostname": *"\(node.\)".*/\1/p' run/head.json | sed 's/node[34]/node2/; t; s/node2/node4/')" KILL autolaunch
    login scontrol update nodename=node1 state=down reason=test
    eventually "the requeue" eval '[ "$(job_field "$job" Restarts)" = 1 ]'
    grep -q '"event":"job_ended","exit_code":75' run/events.jsonl || echo "  not as meant: it had not ended the job when it lost its majority"
    login scancel "$job"
    eventually "the end of the job" job_ended "$job"
    reboot node1
}
gpt_spec() { # RANKS_PER_NODE [NODES]
    cat <<END
trainer: {command: [gpt], config: {device: cpu, sample_bytes: 0}}
resource_management: {ranks_per_node: $1, binding: none${2:+, nodes: {min: $2, max: $2, spares: 1\}}}
model: {layers: 2, heads: 4, width: 64, context: 64}
distributed: {backend: mpi}
dataloader: {path: "$PWD/text", global_batch: 24}
optimizer: {lr: 0.001, min_lr: 0.001}
step_scheduler: {max_steps: 60, warmup_steps: 2, log_every: 1, checkpoint_every: 10, copy_every: 1}
checkpoint: {enabled: true, checkpoint_dir: "$PWD/checkpoints.$1", keep: 3}
rendezvous: {lost_after: 3s}
restart: {grace_period: 1s}
END
}
last_loss() { sed -n 's|^step 60/60 *loss \([0-9.]*\) .*|\1|p' "$1/rank-0/stdout" | grep .; }
# Its node loses its power: another is head, the spare stands in, and what was learnt is what an undisturbed run learns.
test_goes_on_without_the_head() {
    local cut i
    export OMP_NUM_THREADS=1
    for ((i = 0; i < 400; i++)); do echo "line $((i % 7)): the quick brown fox jumps over the lazy dog"; done >text
    gpt_spec 2 3 >train.yaml
    login srun -N4 --no-kill --wait=0 autolaunch --log-dir run -c train.yaml >out.log 2>err.log &
    job=$!
    eventually "a checkpoint on disk" eval 'events checkpoint | grep -q "/checkpoints.2/"'
    cut=$(date +%s.%N)
    "$cluster" kill node1
    eventually "another head" grep -Eq '"event":"head_changed","node":"node[2-4]","from":"node1"' run/events.jsonl
    login scontrol update nodename=node1 state=down reason=test
    eventually "where the new head is" eval '! grep -q "\"node1\"" run/head.json'
    login autolaunch attach run >attach.out 2>&1 & # whose the job is MUNGE says at that door, too
    local watcher=$!
    eventually "the next generation's first step" grep -qs "^step" run/generation-1/rank-0/stdout
    echo "  the head's node without power: $(awk -v from="$cut" -v to="$(date +%s.%N)" 'BEGIN { printf "%.1f", to - from }') s until a step is done"
    ended
    expect "exit code of srun" 0 "$code"
    grep -Eq "head      node[2-4], instead of node1" err.log || fail "what srun shows of the new head: $(cat err.log)"
    contains "who stands in" err.log "without node1 · node4 instead"
    contains "the end" run/exit.json '"exit_code": 0'
    wait "$watcher" || fail "exit code $? of attach: $(cat attach.out)"
    contains "how attach ends" attach.out "the job has ended: succeeded"
    gpt_spec 6 >calm.yaml
    "$AUTOLAUNCH" --log-dir calm -c calm.yaml >calm.log 2>&1 </dev/null || fail "the undisturbed run"
    [ -n "$(last_loss calm/generation-0)" ] || fail "the undisturbed run prints no loss: $(cat calm.log)"
    expect "the last loss" "$(last_loss calm/generation-0)" "$(last_loss run/generation-1)"
    reboot node1
}
# Slurm notices each loss, and lets the job go on: first with the spare, then with a node less.
test_goes_on_without_lost_nodes() {
    local node
    spec 2 /bin/sh -c 'until [ -e over ]; do sleep 0.1; done'
    submit -N4 <<'END'
#SBATCH --no-kill
srun --no-kill --wait=0 autolaunch --nnodes 2:3 --spare-nodes 1 --log-dir run -c train.yaml rendezvous.lost_after=3s restart.grace_period=1s
END
    eventually "ranks of three nodes" started 6
    "$cluster" kill node2
    login scontrol update nodename=node2 state=down reason=test
    eventually "ranks with the spare" started 12
    contains "who stands in" batch.log "3 nodes · 6 ranks · without node2 · node4 instead"
    "$cluster" kill node3
    login scontrol update nodename=node3 state=down reason=test
    eventually "ranks of two nodes" started 16
    contains "who is left" batch.log "2 nodes · 4 ranks · without node2, node3"
    expect "state" RUNNING "$(job_field "$job" JobState)"
    touch over
    eventually "the end of the job" job_ended "$job"
    expect "state at the end" COMPLETED "$(job_field "$job" JobState)"
    grep "a lost node:" batch.log && fail "a warning about what is as it should be"
    for node in node2 node3; do
        "$cluster" boot "$node"
        login scontrol update nodename="$node" state=resume
        eventually "the return of $node" login srun -w "$node" true
    done
}
test_what_forbids_to_go_on() { # said at the start, and by `plan`
    spec 2 /bin/true
    submit -N2 <<<'srun --wait=60 -K autolaunch --nnodes 1:2 --log-dir run -c train.yaml'
    eventually "the end of the job" job_ended "$job"
    contains "the job" batch.log "the job's script does not ask for it"
    contains "the step" batch.log "srun was not told --no-kill"
    contains "-K" batch.log "srun was told -K"
    contains "--wait" batch.log "srun ends the step 60 s after the first task has ended"
    login srun -N2 --no-kill --wait=0 autolaunch --nnodes 1:2 --log-dir run2 -c train.yaml >out.log 2>err.log || fail "exit code $?"
    grep "a lost node:" err.log && fail "a warning about what is as it should be"
    return 0
}
# Slurm reaches all processes of a step here, ranks as well; with ProctrackType=proctrack/cgroup, srun's tasks alone.
test_scancel_reaches_ranks_too() {
    spec 2 "$misbehave" hang
    launch 3
    login scancel -u root
    ended
    contains "it is a stop, no failure" err.log "stopped by SIGTERM"
    expect "ranks that failed" 0 "$(events generation_failed | wc -l)"
}
# Trainers that stop by themselves save all the same, with autolaunch-pmixd beside them where it is built.
test_scancel_lets_ranks_save() {
    local mpi=none
    [ ! -x "$AUTOLAUNCH_BINARY_DIR/launcher/pmi/autolaunch-pmixd" ] || mpi=pmix
    spec 2 "$misbehave" train:0
    launch 3 trainer.mpi=$mpi restart.max_restarts=2
    eventually "steps of all nodes" eval '[ "$(grep -l step run/events*.jsonl | wc -l)" = 3 ]'
    login scancel -u root
    ended
    contains "it is a stop, no failure" err.log "stopped by SIGTERM"
    contains "the outcome" run/events.jsonl '"event":"job_ended","exit_code":143' # nobody wants it back
    expect "ranks that saved" 6 "$(events checkpoint | grep -c '/checkpoints/last')"
    expect "ranks that failed" 0 "$(events generation_failed | wc -l)"
}
run_tests
