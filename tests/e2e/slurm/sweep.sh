#!/bin/bash
# Sweeps on a real Slurm: an array of the sweep's size, each element with its own values, early stops by what others report,
# the table by records and by Slurm's word, failed elements alone again; and a pipeline of real stages.
. "$(dirname "$0")/lib.sh"
start_cluster 2

trainer=$AUTOLAUNCH_SOURCE_DIR/tests/e2e/sweep_trainer.py
sub() { # ARGUMENTS...: autolaunch submit on the head; sets `code`, and `job` to what it printed
    code=0
    login autolaunch submit "$@" >out.log 2>err.log || code=$?
    job=$(<out.log)
}
spec_of() { # KEYS OF sweep...: writes train.yaml
    cat >train.yaml <<END
trainer:
  command: [python3, "$trainer"]
  config: {steps: 40, seconds: 0.05, seed: 0}
optimizer: {lr: 1.0}
checkpoint: {checkpoint_dir: saves}
resource_management: {ranks_per_node: 1}
slurm_config: {job_name: sweep, time_limit: 5, output: "log-%a", cpus_per_task: 1}
sweep:
END
    printf '  %s\n' "$@" >>train.yaml
}
status() { login autolaunch sweep status "$@" --json >out.log 2>status.log; }
states() { python3 -c 'import json; print(*[e["state"].replace(" ", "-") for e in sorted(json.load(open("out.log"))["elements"], key=lambda e: e["element"])])'; }
stand() { status "$1" && [ "$(states)" = "$2" ]; } # SWEEP STATES
slowly() { # as eventually, for minutes
    local what=$1 i
    shift
    for ((i = 0; i < 120; i++)); do "$@" && return; sleep 1; done
    fail "$what did not happen: $(cat out.log status.log)"
}

test_a_sweep_from_its_spec_to_its_table() {
    # Those that are worse come to the rung later: asha goes by who is there.
    spec_of 'grid: {optimizer.lr: [0.1], trainer.config.seed: [1, 2]}' 'list:' '  - {optimizer.lr: 1e-5, trainer.config.seconds: 0.5}' \
        '  - {optimizer.lr: 1e-4, trainer.config.seconds: 0.5}' '  - {optimizer.lr: 0.1, trainer.config.fail: fixed}' \
        'early_stop: {rule: asha, min_steps: 10, eta: 2}'
    sub -c train.yaml
    expect "exit code: $(cat err.log)" 0 "$code"
    [[ $job =~ ^[0-9]+$ ]] || fail "on stdout: $job"
    local sweep=$job folder
    folder=$(echo runs/.submitted/sweep-*)
    slowly "the end of all elements" eval 'status "$sweep" && ! states | grep -qE "pending|running|not-known"'
    expect "how they ended" "done done stopped-early stopped-early failed" "$(states)"
    local early=2
    expect "Slurm's state of one that was stopped" COMPLETED "$(job_field "${sweep}_$early" JobState)"
    expect "its restarts" 0 "$(job_field "${sweep}_$early" Restarts)"
    contains "it was told why" "log-$early" "stopped   cause: cancelled, certain · asha: its loss at the rung of step 10"
    [ -s "saves/element-$early/saved" ] || fail "it has not saved: $(cat "log-$early")"
    json 'd["elements"][0]["values"]["optimizer.lr"] == "0.1"'
    contains "an element's own values" log-1 "lr 0.1 seed 2 from step 1"
    # The failed one alone again.
    touch fixed
    login autolaunch sweep resubmit "$folder" >again.log 2>err.log || fail "resubmit: $(cat err.log)"
    slowly "the end of the failed one" eval 'status "$folder" && [ "$(states | cut -d" " -f5)" = done ]'
    expect "its job" "$(<again.log)_4" "$(python3 -c 'import json; print([e["job"] for e in json.load(open("out.log"))["elements"] if e["element"] == 4][0])')"
    # Where Slurm is silent, the table says so.
    kill_on head STOP slurmctld
    login autolaunch sweep status "$folder" >silent.log 2>&1
    kill_on head CONT slurmctld
    contains "Slurm's silence" silent.log "Slurm does not answer (scontrol show job"
}
test_an_element_that_is_requeued_reads_its_own_spec() {
    spec_of 'grid: {trainer.config.seed: [5, 6]}' 'early_stop: {rule: median}'
    sed -i 's/seconds: 0.05/seconds: 0.5/; s/steps: 40/steps: 20/' train.yaml
    sub -c train.yaml
    expect "exit code: $(cat err.log)" 0 "$code"
    slowly "the first start" grep -qs "seed 6 from step 1" log-1
    : >train.yaml
    login scontrol requeue "${job}_1" || fail "no requeue"
    eventually "the requeue" eval '[ "$(job_field "${job}_1" JobState)" = PENDING ]'
    login scontrol update job="${job}_1" StartTime=now+2 || fail "no start" # else Slurm waits for two minutes
    slowly "the end" stand "$job" "done done"
    expect "starts with its own values" 2 "$(grep -c 'seed 6 from step' log-1)"
}
test_what_slurm_does_not_take() {
    spec_of "random: {samples: 1100, ranges: {optimizer.lr: {log: [1e-5, 1]}}}"
    sub -c train.yaml
    expect "exit code of too many" 65 "$code"
    contains "the line" err.log "train.yaml:9:3: sweep: makes 1100 elements, and MaxArraySize of this cluster is 1001: no array has more"
    spec_of 'grid: {optimizer.lr: [1, 2]}'
    sub -c train.yaml slurm_config.partition=nowhere
    expect "exit code of what sbatch refuses" 69 "$code"
    contains "sbatch's own words" err.log "invalid partition specified: nowhere"
    [ -z "$(ls runs/.submitted)" ] || fail "left of a job that is none: $(ls runs/.submitted)"
}
# configs/pipeline: a text, a model of it, its loss on held-out text, one file of it.
test_a_pipeline_of_four_stages() {
    export PIPELINE_DIR=$PWD/pipeline OMP_NUM_THREADS=1
    cp -r "$AUTOLAUNCH_SOURCE_DIR/configs/pipeline" specs
    sed -i 's/max_steps: 200, warmup_steps: 20, log_every: 50/max_steps: 20, warmup_steps: 2, log_every: 10/; s/every_steps: 100/every_steps: 10/' specs/common.yaml
    sed -i 's/nodes: 1, time_limit: 30/nodes: 1, time_limit: 30, output: "%x.out"/' specs/common.yaml
    sub -c specs/all.yaml
    expect "exit code: $(cat err.log)" 0 "$code"
    local jobs
    read -ra jobs <<<"$(tr '\n' ' ' <out.log)"
    expect "jobs" 4 "${#jobs[@]}"
    contains "what waits for what" err.log "job ${jobs[3]} (export) waits for afterok:${jobs[1]},afterok:${jobs[2]}"
    slowly "the end of the last stage" job_ended "${jobs[3]}"
    expect "how it ended" COMPLETED "$(job_field "${jobs[3]}" JobState)"
    contains "the training" train.out "step 20/20"
    contains "the evaluation goes by the training's checkpoint" evaluate.out "resumed from step 20"
    contains "the loss on held-out text" evaluate.out "validation loss"
    python3 - "$PIPELINE_DIR/model.safetensors" <<'END' || fail "the exported model"
import json, struct, sys
with open(sys.argv[1], "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
tensors = {name: tensor for name, tensor in header.items() if name != "__metadata__"}
assert tensors and all(tensor["dtype"] == "BF16" for tensor in tensors.values()), header
END
}
run_tests
