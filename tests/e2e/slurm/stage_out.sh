#!/bin/bash
# Results of each node's own disk, on a real Slurm: side by side at the end, where Slurm requeues the job, and where it ends it. With
# the argument `all` also the time limit, which takes two minutes.
. "$(dirname "$0")/lib.sh"
export CLUSTER_CONF='KillWait=12'
start_cluster 2
everything=${1:-}

# writes COMMAND TARGET [LINE...]: train.yaml
writes() {
    printf 'trainer: {command: [bash, -c, "%s"]}\nstorage: {scratch: %s, stage_out: [{from: res, to: %s}]}\n' "$1" $scratch "$PWD/$2" >train.yaml
    [ $# -lt 3 ] || printf '%s\n' "${@:3}" >>train.yaml
}

test_two_nodes_side_by_side() {
    writes 'head -c 1M /dev/zero > $AUTOLAUNCH_OUT_RES/r$RANK' res
    login srun -N2 autolaunch -c train.yaml >out.log 2>&1 || fail "$(cat out.log)"
    expect "files" "1048576 1048576" "$(stat -c %s res/r0 res/r1 | paste -sd' ')"
    contains "the second node" out.log "copied    res of node2: 1.0 MB in 1 file to $PWD/res"
    drop_scratch
}
both_wrote() { [ "$(find runs -name stdout | xargs -r grep -l wrote | wc -l)" -ge 2 ]; }
both_came() { [ -s requeued/r0 ] && [ -s requeued/r1 ]; }
test_what_a_requeued_job_has_written() {
    writes 'trap : TERM; echo a > $AUTOLAUNCH_OUT_RES/r$RANK; echo wrote; sleep 100 & wait' requeued \
        'slurm_config: {nodes: 2, output: out.log, time_limit: 10}'
    local job
    job=$(login autolaunch submit -c train.yaml 2>err.log) || fail "$(cat err.log)"
    eventually "both ranks write" both_wrote
    login scontrol requeue "$job"
    eventually "both files come" both_came
    login scancel "$job"
    eventually "the job's end" no_jobs
    drop_scratch
}
# Ranks that do not end would have all of the 9.6 s before Slurm's SIGKILL; at 500 kB/s the copies take 4 s.
test_the_time_for_copies_when_slurm_ends_the_job() {
    local job
    writes "trap '' TERM; head -c 2M /dev/zero > \$AUTOLAUNCH_OUT_RES/r\$RANK; echo wrote; while :; do sleep 1; done" kept
    sed -i 's/stage_out:/throttle: 500KB, stage_out_time: 5s, &/' train.yaml
    submit -N2 --time=10 <<<'exec srun autolaunch --log-dir run -c train.yaml'
    eventually "both ranks write" eval '[ "$(cat run/generation-0/rank-*/stdout 2>/dev/null | grep -c wrote)" = 2 ]'
    login scancel "$job"
    eventually "the job's end" no_jobs
    expect "files" "2097152 2097152" "$(stat -c %s kept/r0 kept/r1 | paste -sd' ')"
    contains "what ranks have" batch.log "and storage.stage_out_time is 5.0 s: the ranks have "
    expect "what stays" "" "$(events data_left)"
    drop_scratch
}
# At the limit the copies, which take 20 s, are done: ranks were asked as much earlier.
test_the_time_for_copies_before_the_time_limit() {
    [ "$everything" = all ] || { echo "   not tried: the time limit, in minutes: stage_out.sh all" && return; }
    writes 'head -c 2M /dev/zero > $AUTOLAUNCH_OUT_RES/r$RANK; exec sleep 300' limit
    sed -i 's/stage_out:/throttle: 100KB, stage_out_time: 25s, &/' train.yaml
    submit -N2 --time=1 <<<'exec srun autolaunch --log-dir run -c train.yaml'
    sleep 40
    eventually "the job's end" no_jobs
    contains "why" batch.log "stopped before the time limit"
    expect "files" "2097152 2097152" "$(stat -c %s limit/r0 limit/r1 | paste -sd' ')"
    expect "what stays" "" "$(events data_left)"
    drop_scratch
}
run_tests
