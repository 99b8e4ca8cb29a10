#!/bin/bash
# An element of a sweep loses its head before the rung at which it is judged: the next head goes on with the element's record, and
# stops it there by what the other elements have written.
. "$(dirname "$0")/machines.sh"
. "$(dirname "$0")/lib.sh"
export SLURM_CONF=$work/nowhere.conf
machines=(node0 node1 node2)
start_machines "${machines[@]}"
. "$(dirname "$0")/elastic_nodes.sh"

cat >train.yaml <<END
trainer:
  command: [python3, "$AUTOLAUNCH_SOURCE_DIR/tests/e2e/sweep_trainer.py"]
  config: {steps: 4000, seconds: 0.03}
optimizer: {lr: 1.0}
checkpoint: {checkpoint_dir: saves}
rendezvous: {lost_after: 2s}
slurm_config: {job_name: gpt}
sweep:
  grid: {optimizer.lr: [0.1, 1e-5]}
  early_stop: {rule: asha, min_steps: 60, eta: 2}
END
mkdir fake # a Slurm that takes every job
printf '#!/bin/sh\ncase "$*" in *config*) echo "MaxArraySize = 1001" ;; *) exit 1 ;; esac\n' >fake/scontrol
printf '#!/bin/sh\n[ "$1" = --parsable ] && echo 7 || echo "sbatch: Job 7 to start at 2026-11-29T14:00:00" >&2\n' >fake/sbatch
printf '#!/bin/sh\nexit 1\n' >fake/sacctmgr
chmod +x fake/*
PATH=$work/fake:$PATH "$AUTOLAUNCH" submit -c train.yaml >out.log 2>err.log || fail "exit code $?: $(cat err.log)"
folder=$work/$(echo runs/.submitted/gpt-*)

SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=0 timeout 60 "$AUTOLAUNCH" -c "$folder/spec.yaml" -n 1 trainer.config.steps=100 \
    trainer.config.seconds=0 >e0.log 2>&1 || fail "element 0: $(cat e0.log)"
for node in "${machines[@]}"; do
    on "$node" env "AUTOLAUNCH_JOB_KEY=a key for this test" SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=1 "$AUTOLAUNCH" -c "$folder/spec.yaml" \
        --nnodes 1:3 --rdzv-backend c10d --rdzv-endpoint node0:23456 --rdzv-id element -n 1 --log-dir element \
        >"element.$node.log" 2>&1 </dev/null &
    agent_of[$node]=$!
done
reported() { grep -qs '"step":20,' element/events.jsonl; }
eventually "a step" reported
for process in $(processes_on node0 --rdzv-id); do
    [ "$(cat "/proc/$process/comm")" = autolaunch ] && kill -9 "$process"
done
for node in node1 node2; do ended element "$node" 0; done
ended element node0 68
contains "the head that has gone on" element/events.jsonl '"event":"head_changed"'
contains "why it ends" element/events.jsonl 'asha: its loss at the rung of step 60'
contains "how" element/events.jsonl '"exit_code":0,"outcome":"stopped early"'
contains "its record" "$folder/element-1.json" '"stopped_early":"asha'
nothing_left
count_failures
