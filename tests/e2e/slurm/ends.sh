#!/bin/bash
# How Slurm ends a job, and how its end reaches Slurm: exit codes, scancel, signals, the time limit, requeues.
. "$(dirname "$0")/lib.sh"
# As with the control groups of a real cluster, Slurm's signals reach srun's tasks and not what these started.
export CLUSTER_CONF=ProctrackType=proctrack/pgid
start_cluster 2

steps_reported() { [ "$(grep -l '"event":"step"' run/events*.jsonl 2>/dev/null | wc -l)" -ge "$1" ]; } # by so many nodes
trainer() { spec 2 "$misbehave" "${1:-}train:0"; }

# Slurm looks at time limits every 30 s, and a limit is a minute at least: started first, looked at last, and on a cluster
# of their own.
limits() { CLUSTER_STATE=$state_of_limits "$@"; }
state_of_limits=$work/limits
test_time_limit_begins() {
    limits "$cluster" up 2
    trainer sleep:45, # it trains for a minute
    limits submit -N1 --time=0:30 <<<'srun autolaunch --log-dir run -c train.yaml'
    echo "$job" >job
    mkdir stubborn && cd stubborn || fail "no folder"
    spec 2 "$misbehave" ignore-term,stubborn-child,daemon,sleep:200
    limits submit -N1 --time=0:30 <<<'srun autolaunch --log-dir run -c train.yaml restart.grace_period=2s'
    echo "$job" >job
}
test_exit_codes() {
    local expected
    for expected in 0 9 139; do
        case $expected in 0) spec 2 /bin/true ;; 9) spec 2 "$misbehave" hang hang hang exit:9 ;; *) spec 2 "$misbehave" hang hang hang crash ;; esac
        rm -rf run
        one_line -N2 --
        expect "srun's exit code" "$expected" "$code"
    done
    spec 2 ./no-such-program
    one_line -N2 --
    expect "exit code: no such program" 127 "$code"
    login srun -N2 autolaunch -c no-such.yaml >out.log 2>err.log
    expect "exit code: no such spec" 66 "$?"
    expect "what is said of it, once" 1 "$(grep -c no-such.yaml err.log)"
    login srun -N2 autolaunch --no-such-option >out.log 2>err.log
    expect "exit code: no such option" 64 "$?"
    expect "what is said of that, once" 1 "$(grep -c 'autolaunch: .*no-such-option' err.log)"
    login srun -N2 sh -c 'ulimit -n 18; exec autolaunch --nproc-per-node 16 true' >out.log 2>err.log
    expect "exit code: too few files" 71 "$?"
    expect "what to do about it, whole from the first node" 1 "$(grep -c '^autolaunch:   .*files open' err.log)"
    expect "the same from the other, in a line" 1 "$(grep -c '^autolaunch: node2: .*files open' err.log)"
}
test_another_time_limit() { # the environment of Slurm before 23.02 does not tell the job's: squeue does
    spec 2 "$misbehave" sleep:3
    echo 'slurm_config: {time_limit: "4:00:00", partition: gpu}' >>train.yaml
    one_line -N2 -t 30 --
    expect "exit code" 0 "$code"
    contains "the partition" err.log "slurm_config.partition is gpu, but this job has main"
    contains "the time limit" err.log "slurm_config.time_limit is 240 min, but this job has 30 min"
}
test_scancel() {
    trainer
    submit -N2 <<<'srun autolaunch --log-dir run -c train.yaml'
    eventually "steps of both nodes" steps_reported 2
    login scancel "$job"
    eventually "the end of the job" job_ended "$job"
    expect "state" CANCELLED "$(job_field "$job" JobState)"
    eventually "the ledger's end" eval "events job_ended | grep -q ."
    contains "why" run/events.jsonl SIGTERM
    expect "ranks that saved" 4 "$(events checkpoint | grep -c '/checkpoints/last')"
    expect "ranks that ended by themselves" 4 "$(events rank_exited | grep -c '"exit_code":0')"
}
test_scancel_of_ranks_that_ignore_it() {
    spec 2 "$misbehave" ignore-term,stubborn-child,daemon,say:ready,hang
    submit -N2 <<<'srun autolaunch --log-dir run -c train.yaml restart.grace_period=1s'
    eventually "four ranks" eval "[ \$(cat run/generation-0/rank-*/stderr 2>/dev/null | grep -c ready) = 4 ]"
    login scancel "$job"
    eventually "the end of the job" job_ended "$job"
    rm -rf run # the default grace period, 15 s, is longer than the cluster's KillWait of 5 s: there are last words
    submit -N2 <<<'exec srun autolaunch --log-dir run -c train.yaml'
    eventually "four ranks" eval "[ \$(cat run/generation-0/rank-*/stderr 2>/dev/null | grep -c ready) = 4 ]"
    login scancel "$job"
    eventually "the end of the job" job_ended "$job"
    eventually "the last words" eval "events job_ended | grep -q ."
    contains "the time they had" batch.log "Slurm sends SIGKILL 5.0 s (KillWait) after SIGTERM: the ranks have 4.0 s"
    contains "who was killed" batch.log "did not end within 4"
}
test_usr1_asks_for_a_checkpoint() {
    trainer
    submit -N2 <<<'srun autolaunch --log-dir run -c train.yaml'
    eventually "steps of both nodes" steps_reported 2
    login scancel --signal=USR1 "$job"
    eventually "a checkpoint of each rank" eval "[ \$(events checkpoint | grep -c /checkpoints/asked) = 4 ]"
    expect "state" RUNNING "$(job_field "$job" JobState)"
    login scancel "$job"
    eventually "the end of the job" job_ended "$job"
}
test_usr2_shows_where_the_ranks_are() {
    spec 2 "$AUTOLAUNCH_BINARY_DIR/tests/integration/flight_rank" pretend "$PWD/go"
    submit -N2 <<<'srun autolaunch --log-dir run -c train.yaml'
    eventually "four recorders" eval "[ \$(events message | grep -c recording) = 4 ]"
    login scancel --signal=USR2 "$job"
    eventually "the answer" eval "events flight | grep -q ."
    eventually "the answer's last line" grep -q "all of it: " batch.log # srun passes it on when it comes to it
    contains "who waits" batch.log "ranks 0-2 wait in all_reduce #2 (1 KiB, h.0 gradients) for "
    contains "who does not" batch.log "rank 3 has not entered it"
    expect "state" RUNNING "$(job_field "$job" JobState)"
    expect "one answer to the signals of all nodes" 1 "$(events flight | wc -l)"
    touch go
    eventually "the end of the job" job_ended "$job"
    expect "state" COMPLETED "$(job_field "$job" JobState)"
}
test_stop_signal_requeues() { # --signal=USR1 before the limit: saved, 75, and Slurm starts it again
    spec 2 /bin/sh -c "echo count \$SLURM_RESTART_COUNT; exec $misbehave train:0"
    submit -N2 --requeue <<<'exec srun autolaunch --signals-to-handle SIGUSR1 --log-dir run -c train.yaml'
    eventually "steps of both nodes" steps_reported 2
    login scancel --signal=USR1 "$job"
    eventually "the requeue" eval "[ \$(job_field $job JobState) = PENDING ]"
    expect "restarts" 1 "$(job_field "$job" Restarts)"
    # Else Slurm waits for two minutes. Within the second of the job's end a node takes the new start for the old job.
    login scontrol update job="$job" StartTime=now+2
    eventually "generation 1" eval "[ -s run/generation-1/rank-3/stdout ]"
    contains "its restart count" run/generation-1/rank-3/stdout "count 1"
    login scancel "$job"
    eventually "the end of the job" job_ended "$job"
}
test_signals_to_srun() {
    local signal
    for signal in TERM KILL; do
        rm -rf run
        spec 2 "$misbehave" ignore-term,daemon,say:ready,hang
        login srun -N2 autolaunch --log-dir run -c train.yaml >out.log 2>err.log &
        eventually "ranks" started 4
        kill_on head "$signal" srun
        wait "$!" && fail "srun exited with 0"
        none_left || eventually "nothing left after SIG$signal to srun" none_left
    done
}
test_interrupt() { # twice, as a person does it
    spec 2 "$misbehave" hang
    login srun -N2 autolaunch --log-dir run -c train.yaml >out.log 2>err.log &
    eventually "ranks" started 4
    kill_on head INT srun
    sleep 0.3
    kill_on head INT srun
    wait "$!" && fail "srun exited with 0"
    return 0
}
time_limit_ended() { # FOLDER
    cd "$work/../time_limit_begins/$1" || fail "no folder"
    local i
    for ((i = 0; i < 600; i++)); do
        limits job_ended "$(cat job)" && break
        sleep 0.2
    done
    [ "$(limits job_field "$(cat job)" JobState)" = TIMEOUT ] || limits on head scontrol show job "$(cat job)" >&2
    expect "state" TIMEOUT "$(limits job_field "$(cat job)" JobState)"
}
test_time_limit_ends() {
    time_limit_ended .
    expect "ranks that saved" 2 "$(events checkpoint | grep -c '/checkpoints/last')"
    time_limit_ended stubborn
    expect "ranks that needed SIGKILL" 2 "$(events rank_signalled | grep -c '"signal":9')"
    limits nothing_left
    limits "$cluster" down
}
run_tests
