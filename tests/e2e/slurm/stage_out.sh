#!/bin/bash
# Results of each node's own disk, on a real Slurm: side by side at the end, and where Slurm requeues the job.
. "$(dirname "$0")/lib.sh"
start_cluster 2

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
run_tests
