#!/bin/bash
# How Slurm's ways to take a job's nodes away end: preemption, requeue, suspension. With the argument `all` also those that
# take minutes: time limits that are changed, --signal, arrays, heterogeneous jobs, PreemptMode=SUSPEND.
. "$(dirname "$0")/lib.sh"
export CLUSTER_CONF='PreemptType=preempt/partition_prio
PreemptMode=SUSPEND,GANG
SchedulerTimeSlice=5
RequeueExit=99
PartitionName=again Nodes=ALL PreemptMode=REQUEUE GraceTime=8
PartitionName=gone Nodes=ALL PreemptMode=CANCEL GraceTime=8
PartitionName=again-now Nodes=ALL PreemptMode=REQUEUE
PartitionName=gone-now Nodes=ALL PreemptMode=CANCEL
PartitionName=longer Nodes=ALL OverTimeLimit=1
PartitionName=asleep Nodes=ALL PreemptMode=SUSPEND OverSubscribe=FORCE:1
PartitionName=first Nodes=ALL PriorityTier=10 PreemptMode=OFF OverSubscribe=FORCE:1'
start_cluster 2
everything=${1:-}

# trainer SECONDS [WORD]: two ranks a node, whose saves take so long; requeue: true where WORD says it
trainer() {
    spec 2 "$misbehave" "train-with-saves:$1"
    [ "${2:-}" != requeue ] || echo 'slurm_config: {requeue: true}' >>train.yaml
}
steps_reported() { [ "$(grep -l '"event":"step"' run/events*.jsonl 2>/dev/null | wc -l)" -ge "$1" ]; } # by so many nodes
explained() { events stop_explained | grep -q "\"origin\":\"$1\""; }
pending_again() { [ "$(job_field "$1" JobState)" = PENDING ] && [ "$(job_field "$1" Restarts)" = 1 ]; }
start_now() { login scontrol update job="$1" StartTime=now+2; } # else Slurm waits for two minutes
cancelled() {
    login scancel "$1"
    eventually "the end of job $1" job_ended "$1"
}
long() { # WHAT: only with `all`
    [ "$everything" = all ] || { echo "   not tried: $1, in minutes: stops.sh all" && return 1; }
}

test_the_head_requeues_once_and_a_cancelled_job_never() {
    trainer 0.5 requeue
    submit -N2 --requeue --open-mode=append <<<'exec srun --wait=30 autolaunch --log-dir run -c train.yaml'
    eventually "steps of both nodes" steps_reported 2
    login scancel --signal=TERM "$job"
    eventually "the requeue" pending_again "$job"
    contains "who does it" batch.log "requeue: scontrol requeue $job (slurm_config.requeue)"
    explained signal || fail "no word of a signal alone: $(events stop_explained)"
    expect "the last save" 1 "$(events checkpoint | grep -c '/checkpoints/last')"
    start_now "$job"
    eventually "generation 1" eval "grep -qs checkpoints/first <(events checkpoint | grep '\"generation\":1')"
    contains "the budget" batch.log "a save takes 0.5 s"
    cancelled "$job"
    eventually "the last words" grep -q "no requeue: it was cancelled" batch.log
    contains "the code of a cancelled job, which has saved" run/events.jsonl '"event":"job_ended","exit_code":143'
    explained cancelled || fail "no word of scancel: $(events stop_explained)"
    expect "state" CANCELLED "$(job_field "$job" JobState)"
    expect "restarts" 1 "$(job_field "$job" Restarts)"
}
# A job that saves and ends within GraceTime ends by itself for Slurm: whatever PreemptMode says, it is requeued by exit code
# or by somebody's word alone.
test_preemption_by_requeue_and_by_cancel() {
    local mode jobs=() folder=$PWD
    for mode in again gone; do
        mkdir "$folder/$mode" && cd "$folder/$mode" || fail "no folder"
        trainer 7 requeue
        submit -N1 --exclusive -p "$mode" --requeue <<<'exec srun autolaunch --log-dir run -c train.yaml'
        jobs+=("$job")
        eventually "a save" eval "events checkpoint | grep -q first"
    done
    cd "$folder" || fail "no folder"
    submit -N2 --exclusive -p first --time=5 <<<'sleep 1000'
    for mode in again gone; do
        cd "$folder/$mode" || fail "no folder"
        eventually "why" explained preempted
        events stop_explained | grep -q '"seconds_left":1[123]' || fail "$mode: not GraceTime and KillWait: $(events stop_explained)"
        contains "SIGTERM twice" run/events.jsonl '"event":"stop_requested"'
        eventually "the save, longer than KillWait" eval "events checkpoint | grep -q last"
        eventually "the end" eval "events job_ended | grep -q '\"exit_code\":75'"
    done
    eventually "both are requeued" eval "pending_again ${jobs[0]} && pending_again ${jobs[1]}"
    login scancel "$job" "${jobs[@]}"
    eventually "no job" no_jobs
}
# Slurm requeues such a job at once, or has set PreemptTime: KillWait is all that is left.
test_preemption_without_grace_time() {
    local mode jobs=() folder=$PWD
    for mode in again gone; do
        mkdir "$folder/$mode" && cd "$folder/$mode" || fail "no folder"
        trainer 0.5 requeue
        submit -N1 --exclusive -p "$mode-now" --requeue <<<'exec srun autolaunch --log-dir run -c train.yaml'
        jobs+=("$job")
        eventually "a save" eval "events checkpoint | grep -q first"
    done
    cd "$folder" || fail "no folder"
    submit -N2 --exclusive -p first --time=5 <<<'sleep 1000'
    for mode in again gone; do
        cd "$folder/$mode" || fail "no folder"
        eventually "the end" eval "events job_ended | grep -q '\"exit_code\":75'"
        events generation_ended | grep -q '"cause":"preempted"' || fail "$mode: not preempted: $(events generation_ended)"
        expect "the last save" 1 "$(events checkpoint | grep -c '/checkpoints/last')"
    done
    eventually "one requeued by Slurm, the other by its head" eval "pending_again ${jobs[0]} && pending_again ${jobs[1]}"
    login scancel "$job" "${jobs[@]}"
    eventually "no job" no_jobs
}
test_a_cancelled_step_is_never_requeued() { # Slurm sends SIGKILL at once: nobody can save, or say 75
    trainer 0.5 requeue
    submit -N2 --requeue <<<'exec srun autolaunch --log-dir run -c train.yaml'
    eventually "steps of both nodes" steps_reported 2
    login scancel "$job.0"
    eventually "the end of job $job" job_ended "$job"
    expect "restarts" 0 "$(job_field "$job" Restarts)"
    expect "an end that was recorded" "" "$(events job_ended)"
    local node # what SIGKILL to agents, keepers and guardians at once leaves
    for node in node1 node2; do on $node autolaunch clean --job "$job" >>clean.log 2>&1 || fail "clean on $node"; done
}
# The same, where SIGKILL comes to one node before the other: a busy slurmctld.
test_a_step_that_is_killed_node_by_node() {
    local node
    trainer 0.5 requeue
    submit -N2 --requeue <<<'exec srun --wait=30 autolaunch --log-dir run -c train.yaml restart.grace_period=0s'
    eventually "steps of both nodes" steps_reported 2
    eventually "a checkpoint" eval "events checkpoint | grep -q first"
    for node in node2 node1; do
        on $node pkill -STOP -x autolaunch-keep # it must not end before the agent
        on $node pkill -KILL -x autolaunch || fail "no agent on $node"
        [ $node = node1 ] || sleep 0.3 # so long that the head has heard of it
        on $node pkill -KILL -x autolaunch-keep
    done
    eventually "the end of job $job" job_ended "$job"
    expect "an end that was recorded" "" "$(events job_ended)"
    expect "restarts" 0 "$(job_field "$job" Restarts)"
    for node in node1 node2; do on $node autolaunch clean --job "$job" >>clean.log 2>&1 || fail "clean on $node"; done
}
test_how_long_slurm_lets_it_run() {
    spec 2 "$misbehave" train:0
    submit -N1 -n1 -c2 -p longer --time=1 <<<'exec srun autolaunch --log-dir run -c train.yaml'
    eventually "the limit and a minute" eval "events time_limit_known | grep -q '\"over_time_seconds\":60'"
    events time_limit_known | tail -n1 | grep -q '"seconds_left":1[0-2][0-9]' || fail "$(events time_limit_known)"
    expect "time in the queue" 1 "$(events queue_time_known | grep -c '"waited_seconds":')"
    cancelled "$job"
    contains "the ledger has it" run/ledger.json '"queue": '
}
test_suspended_and_resumed() {
    spec 2 "$misbehave" train-with-saves:0.1
    submit -N2 <<<'exec srun autolaunch --log-dir run -c train.yaml rendezvous.lost_after=3s'
    eventually "steps of both nodes" steps_reported 2
    login scontrol suspend "$job"
    eventually "it is" eval "[ \$(job_field $job JobState) = SUSPENDED ]"
    sleep 5 # longer than nodes may be silent
    local steps
    steps=$(events step | wc -l)
    login scontrol resume "$job"
    eventually "they go on" grep -q "its ranks go on" batch.log
    contains "they were held" batch.log "its ranks are held until most nodes have answered"
    eventually "more steps" eval "[ \$(events step | wc -l) -gt $((steps + 40)) ]"
    expect "lost nodes" "" "$(events node_lost)"
    cancelled "$job"
}
test_why_is_known_where_ranks_end_at_once() { # before scontrol has answered
    spec 2 "$misbehave" hang
    submit -N2 --exclusive -p gone <<<'exec srun autolaunch --log-dir run -c train.yaml'
    eventually "ranks" started 4
    local preempted=$job
    submit -N2 --exclusive -p first --time=5 -o /dev/null <<<'sleep 1000'
    eventually "the screen" grep -q "cause: preempted, certain" batch.log
    login scancel "$job" "$preempted"
    eventually "no job" no_jobs
}
test_a_higher_partition_suspends() {
    long "PreemptMode=SUSPEND" || return 0
    trainer 0.1
    submit -N2 -n2 -c32 -p asleep <<<'exec srun autolaunch --log-dir run -c train.yaml rendezvous.lost_after=3s'
    local sleeper=$job
    eventually "steps of both nodes" steps_reported 2
    submit -N2 -n2 -c32 -p first -o /dev/null <<<'sleep 6'
    eventually "it sleeps" eval "[ \$(job_field $sleeper JobState) = SUSPENDED ]"
    eventually "it runs again" eval "[ \$(job_field $sleeper JobState) = RUNNING ]"
    eventually "they go on" grep -q "its ranks go on" batch.log
    expect "lost nodes" "" "$(events node_lost)"
    cancelled "$sleeper"
}
ended_within() { # SECONDS JOB
    local i
    for ((i = 0; i < $1 * 5; i++)); do
        job_ended "$2" && return
        sleep 0.2
    done
    fail "job $2 did not end within $1 s: $(job_field "$2" JobState)"
}
test_time_limits() { # one that an operator extends, one that is shortened, one with --signal; side by side
    long "time limits" || return 0
    local kind folder=$PWD jobs=() options
    for kind in longer shorter signal over; do
        mkdir "$folder/$kind" && cd "$folder/$kind" || fail "no folder"
        case $kind in longer) options=(--time=1) ;; shorter) options=(--time=10) ;; over) options=(--time=1 -p longer) ;; *) options=(--time=2 --signal=TERM@60) ;; esac
        trainer "$([ "$kind" = signal ] && echo 8 || echo 1)"
        submit -N1 -n1 -c2 "${options[@]}" <<<'exec srun autolaunch --log-dir run -c train.yaml'
        jobs+=("$job")
        eventually "a save" eval "events checkpoint | grep -q first"
    done
    login scontrol update job="${jobs[0]}" TimeLimit=2
    login scontrol update job="${jobs[1]}" TimeLimit=1
    cd "$folder/longer" && ended_within 180 "${jobs[0]}"
    contains "by ourselves" run/events.jsonl "stopped before the time limit"
    events time_limit_known | grep -q '"changed":true' || fail "the change was not noticed"
    events job_ended | grep -q '"ran_seconds":\(9[0-9]\|10[0-9]\|11[0-9]\)' || fail "not at the new limit: $(events job_ended)"
    expect "the last save" 1 "$(events checkpoint | grep -c '/checkpoints/last')"
    cd "$folder/shorter" && ended_within 30 "${jobs[1]}"
    # It is asked again after a tenth of ten minutes: then the time is over, and Slurm's SIGTERM has come.
    expect "the last save" 1 "$(events checkpoint | grep -c '/checkpoints/last')"
    cd "$folder/over" && ended_within 60 "${jobs[3]}"
    contains "by ourselves" run/events.jsonl "stopped before the time limit"
    events job_ended | grep -q '"ran_seconds":\(9[0-9]\|10[0-9]\|11[0-9]\)' || fail "not at the limit and a minute: $(events job_ended)"
    cd "$folder/signal" && ended_within 60 "${jobs[2]}"
    explained signal || fail "no word of --signal: $(events stop_explained)"
    expect "the last save, longer than KillWait" 1 "$(events checkpoint | grep -c '/checkpoints/last')"
    contains "that it is" run/events.jsonl "a save takes 8.0 s, KillWait is 5.0 s: use --signal=TERM@120"
}
test_maintenance() { # made over a job that runs
    long "a maintenance reservation" || return 0
    spec 2 "$misbehave" train:0
    submit -N2 --time=3 <<<'exec srun autolaunch --log-dir run -c train.yaml'
    eventually "steps of both nodes" steps_reported 2
    login scontrol create reservation reservationname=fix starttime=now+90 duration=5 nodes=ALL \
        flags=MAINT,IGNORE_JOBS users=root >/dev/null || fail "no reservation"
    local i
    for ((i = 0; i < 100; i++)); do events checkpoint | grep -q asked && break; sleep 0.5; done
    expect "a checkpoint of each rank of the head's node" 2 "$(events checkpoint | grep -c asked)"
    contains "why" run/events.jsonl "(reservation fix): a checkpoint is asked for at "
    expect "state" RUNNING "$(job_field "$job" JobState)"
    cancelled "$job"
    login scontrol delete reservationname=fix
}
test_arrays_and_heterogeneous_jobs() {
    long "arrays and heterogeneous jobs" || return 0
    trainer 0.5 requeue
    submit -N1 -n1 -c2 --array=1-2 --requeue <<<'exec srun autolaunch --log-dir run.$SLURM_ARRAY_TASK_ID -c train.yaml'
    local both='[ $(grep -l checkpoints/first run.*/events.jsonl 2>/dev/null | wc -l) = 2 ]'
    eventually "both train" eval "$both"
    login scancel --signal=TERM "${job}_2" # its number is the array's: Slurm would take both for it
    eventually "one is requeued" eval "[ \"\$(login squeue -h -t PD -o %K)\" = 2 ]"
    expect "the other runs" 1 "$(login squeue -h -t R -o %K)"
    cancelled "$job"
    { printf '#!/bin/bash\n#SBATCH -n1 -c2 -w node1\n#SBATCH hetjob\n#SBATCH -n1 -c2 -w node2\n'
      echo 'exec srun --het-group=0,1 autolaunch --log-dir run -c train.yaml'; } >het.sh
    job=$(login sbatch --parsable --requeue -o "$PWD/het.log" het.sh) || fail "sbatch failed"
    eventually "steps of both nodes" steps_reported 2
    login scancel --signal=TERM "$job"
    eventually "both components are requeued" eval "[ \"\$(login squeue -h -t PD -o %i | wc -l)\" = 2 ]"
    cancelled "$job"
}
run_tests
