#!/bin/bash
# Sweeps where there is no Slurm: what submit stores of each element, which is run here as its job would; early stops by what
# the elements have written; the table; mistakes with their places. tests/e2e/slurm/sweep.sh has the whole way.
. "$(dirname "$0")/lib.sh"
export SLURM_CONF=$work/nowhere.conf

cat >train.yaml <<END
trainer:
  command: [python3, "$AUTOLAUNCH_SOURCE_DIR/tests/e2e/sweep_trainer.py"]
  config: {steps: 40, seconds: 0.03, seed: 0}
optimizer: {lr: 1.0}
checkpoint: {checkpoint_dir: saves}
resource_management: {ranks_per_node: 1}
slurm_config: {job_name: gpt, array_throttle: 2}
sweep:
  grid: {optimizer.lr: [0.1, 1e-5], trainer.config.seed: [1]}
  list: [{optimizer.lr: 0.1, trainer.config.fail: fixed}]
  early_stop: {rule: asha, min_steps: 5, eta: 2}
END
# ---- nothing is submitted -------------------------------------------------------------------------------------------
"$AUTOLAUNCH" submit -c train.yaml --dry-run >job.sh 2>err.log || fail "exit code $?: $(cat err.log)"
grep -qx '#SBATCH --array=0-2%2' job.sh || fail "$(cat job.sh)"
contains "the elements" err.log "element 1: optimizer.lr=1e-5 trainer.config.seed=1"
contains "a key that is new" err.log "the sweep sets trainer.config.fail, which the spec has nowhere else"
contains "checkpoints" err.log "each element has a folder of its own, saves/element-0 and so on"
says 0 'train.yaml: valid, a sweep of 3 elements' "$AUTOLAUNCH" validate train.yaml
"$AUTOLAUNCH" lint train.yaml >lint.log 2>&1 || failed "lint: $(cat lint.log)"
says 0 'element 0 of a sweep of 3: optimizer.lr=0.1 trainer.config.seed=1; sweep.element=1 shows another' "$AUTOLAUNCH" plan -c train.yaml
says 0 'element 2 of a sweep of 3: optimizer.lr=0.1 trainer.config.fail=fixed' "$AUTOLAUNCH" plan -c train.yaml sweep.element=2
says 65 'train.yaml:9:3: sweep: is of 3 jobs: autolaunch submit -c train.yaml makes a Slurm array' "$AUTOLAUNCH" -c train.yaml
says 65 'makes 3 elements, 0 to 2, and SLURM_ARRAY_TASK_ID is 3' env SLURM_ARRAY_TASK_ID=3 "$AUTOLAUNCH" -c train.yaml
says 0 'lr 1e-05 seed 1 from step 1' env SLURM_ARRAY_TASK_ID=1 "$AUTOLAUNCH" -c train.yaml checkpoint.checkpoint_dir=once
says 65 'sweep.element: is of `run` and `plan`' "$AUTOLAUNCH" submit -c train.yaml sweep.element=1 --dry-run
says 65 'sweep: makes an array of Slurm' "$AUTOLAUNCH" submit -c train.yaml --to jobset
says 65 'override slurm_config.array=0-3: slurm_config.array: stands beside `sweep`' "$AUTOLAUNCH" submit -c train.yaml slurm_config.array=0-3 --dry-run
sed 's/optimizer.lr: \[0.1, 1e-5\]/restart.max_restart: [1]/' train.yaml >wrong.yaml
for command in "validate" "submit --dry-run -c" "lint"; do # the same place, whoever looks
    code=65 && [ "$command" != lint ] || code=1
    says $code 'max_restart: unknown key; did you mean "max_restarts"?' "$AUTOLAUNCH" $command wrong.yaml
done
sed 's/\[0.1, 1e-5\]/[]/' train.yaml >empty.yaml
says 65 'empty.yaml:9:24: sweep.grid.optimizer.lr: expected a list of values; found none' "$AUTOLAUNCH" validate empty.yaml
says 64 'one of status, resubmit' "$AUTOLAUNCH" sweep
says 66 'there is no such folder' "$AUTOLAUNCH" sweep status nowhere

# ---- a Slurm that is two scripts: it takes every job ----------------------------------------------------------------
mkdir fake
printf '#!/bin/sh\ncase "$*" in *config*) echo "MaxArraySize = ${MAX:-1001}"; echo "KillWait = 30 sec" ;; *job*) [ -s slurm ] || exit 1; cat slurm ;; esac\n' >fake/scontrol
printf '#!/bin/sh\necho "sbatch $*" >>asked\n[ "$1" = --parsable ] && echo 7 || echo "sbatch: Job 7 to start at 2026-11-29T14:00:00" >&2\n' >fake/sbatch
printf '#!/bin/sh\nPATH=%s/fake:$PATH exec "$@"\n' "$work" >fake/with
printf '#!/bin/sh\nexit 1\n' | tee fake/sacctmgr >fake/sacct
chmod +x fake/*
fake=$work/fake/with
says 65 'train.yaml:9:3: sweep: makes 3 elements, and MaxArraySize of this cluster is 2: no array has more' env MAX=2 "$fake" "$AUTOLAUNCH" submit -c train.yaml
"$fake" "$AUTOLAUNCH" submit -c train.yaml >out.log 2>err.log || fail "exit code $?: $(cat err.log)"
folder=$(echo runs/.submitted/gpt-*)
contains "what to ask" err.log "3 elements; how they do: autolaunch sweep status $work/$folder"
expect "files" "element-0.yaml element-1.yaml element-2.yaml job.sh spec.yaml submission.json " "$(ls "$folder" | tr '\n' ' ')"

# Each as its job would: the script names the sweep's spec, and finds the element's.
element() { # NUMBER: sets `code`
    code=0
    env SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID="$1" timeout 60 "$AUTOLAUNCH" -c "$folder/spec.yaml" >"e$1.log" 2>&1 || code=$?
}
: >train.yaml # nothing of it is read any more
element 0
expect "exit code of a good one: $(cat e0.log)" 0 "$code"
contains "which it is" e0.log "element 0 of the sweep $work/$folder: optimizer.lr=0.1 trainer.config.seed=1"
element 1
expect "exit code of one that is stopped: $(cat e1.log)" 0 "$code"
contains "why" e1.log "stopped   cause: cancelled, certain · asha: its loss at the rung of step 5, 4.2, is number 2 of 2, and the best 1 go on"
contains "it has saved" e1.log "saved at step"
expect "its checkpoint" saved "$(ls saves/element-1)"
[ ! -e saves/element-0 ] || fail "checkpoints are not apart"
grep -q '"event":"job_ended".*"exit_code":0,"outcome":"stopped early"' "$(readlink -f runs/latest)/events.jsonl" || fail "$(tail -n 1 runs/latest/events.jsonl)"
element 2
expect "exit code of one that fails" 3 "$code"

printf 'JobId=8 ArrayJobId=7 ArrayTaskId=0 JobState=COMPLETED\nJobId=9 ArrayJobId=7 ArrayTaskId=1 JobState=COMPLETED\nJobId=7 ArrayJobId=7 ArrayTaskId=2 JobState=FAILED\n' >slurm
"$fake" "$AUTOLAUNCH" sweep status 7 --json >out.log 2>err.log || fail "exit code $?: $(cat err.log)"
json '[(e["element"], e["state"]) for e in d["elements"]] == [(0, "done"), (2, "failed"), (1, "stopped early")]'
json 'd["elements"][0]["best_step"] == 40 and d["elements"][0]["values"]["optimizer.lr"] == "0.1" and d["elements"][1]["exit_code"] == 3'
"$AUTOLAUNCH" sweep status "$folder" >out.log 2>err.log || fail "exit code $?: $(cat err.log)"
contains "Slurm's silence" out.log "Slurm does not answer (scontrol show job 7)"
contains "why one was stopped" out.log "element 1: asha: its loss at the rung of step 5"
contains "the remedy" out.log "autolaunch sweep resubmit $work/$folder starts the failed one again"
: >asked
says 0 "sbatch --array=2%2 $work/$folder/job.sh" "$fake" "$AUTOLAUNCH" sweep resubmit 7 --dry-run
[ ! -s asked ] || fail "--dry-run has asked: $(cat asked)"
"$fake" "$AUTOLAUNCH" sweep resubmit 7 >out.log 2>err.log || fail "exit code $?: $(cat err.log)"
expect "what sbatch was told" "sbatch --parsable --array=2%2 $work/$folder/job.sh" "$(cat asked)"
touch fixed && element 2
expect "exit code once it is mended: $(cat e2.log)" 0 "$code"
printf 'JobId=7 ArrayJobId=7 ArrayTaskId=2 JobState=COMPLETED\n' >slurm
says 0 'no element has failed; nothing was submitted' "$fake" "$AUTOLAUNCH" sweep resubmit "$folder"
says 64 'the sweep has no element 9' "$fake" "$AUTOLAUNCH" sweep resubmit "$folder" 9
echo '{"sweep": {"metric": 3}}' >"$folder/submission.json"
says 65 'is not as autolaunch submit wrote it' "$fake" "$AUTOLAUNCH" sweep status "$folder"
nothing_left
count_failures
