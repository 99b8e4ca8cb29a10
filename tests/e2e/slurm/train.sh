#!/bin/bash
# Real trainers across nodes: the GPT trains as on one node, to the bit; an MPI program; an unmodified PyTorch script.
. "$(dirname "$0")/lib.sh"
start_cluster 4
export OMP_NUM_THREADS=1

for i in $(seq 400); do echo "line $((i % 7)): the quick brown fox jumps over the lazy dog"; done >"$work/text"
losses() { sed -n 's|.*step \([0-9]*\)/.*  loss \([0-9.]*\)  grad.*|\1 \2|p' "$1/generation-0/rank-0/stdout"; }
gpt_spec() { # DIRECTORY: its checkpoints are there
    spec "${ranks_per_node:-2}" gpt
    cat >>train.yaml <<END
model: {layers: 1, heads: 2, width: 32, context: 16}
distributed: {backend: mpi}
dataloader: {path: "$work/../text", global_batch: 8}
optimizer: {lr: 0.01, min_lr: 0.01}
step_scheduler: {max_steps: 12, warmup_steps: 2, log_every: 1, checkpoint_every: 6}
checkpoint: {enabled: true, checkpoint_dir: "$PWD/$1"}
END
}
# The sums of a reduce-scatter are taken in the order of ranks wherever the ranks are, so the results are the same bits.
test_gpt_on_four_nodes_as_on_one() {
    gpt_spec four
    login srun -N4 autolaunch --log-dir run -c train.yaml >out.log 2>err.log
    expect "exit code on four nodes" 0 "$?"
    ranks_per_node=8 gpt_spec one
    login srun -N1 autolaunch --log-dir alone -c train.yaml >alone.out.log 2>alone.err.log
    expect "exit code on one node" 0 "$?"
    expect "steps" 12 "$(losses run | wc -l)"
    expect "losses" "$(losses alone)" "$(losses run)"
    diff -r -x manifest.json -x writer.json four one || fail "the checkpoints differ"
    for step in step-00000006 step-00000012; do # a manifest also tells when it was saved, by which run, and of what it was made
        diff <(sed '1d; /^"lineage":/d; s/"saved_unix_ms":[0-9]*//; s/"run_id":"[0-9]*"//' "four/$step/manifest.json") \
            <(sed '1d; /^"lineage":/d; s/"saved_unix_ms":[0-9]*//; s/"run_id":"[0-9]*"//' "one/$step/manifest.json") || fail "the manifests of $step differ"
    done
}
test_gpt_goes_on_after_a_rank_was_killed() { # so many steps that it is still training when the kill comes
    gpt_spec whole
    one_line -N2 -- step_scheduler.max_steps=200
    expect "exit code of the undisturbed run" 0 "$code"
    mv run undisturbed
    gpt_spec killed
    login srun -N2 autolaunch --log-dir run -c train.yaml step_scheduler.max_steps=200 restart.max_restarts=2 >out.log 2>err.log &
    local job=$!
    eventually "a checkpoint" eval 'events checkpoint | grep -q .'
    "$cluster" on node2 kill -9 "$(sed -n 's/.*"event":"rank_started","rank":3,.*"pid":\([0-9]*\).*/\1/p' run/events*.jsonl)"
    wait "$job"
    expect "exit code" 0 "$?"
    contains "the rank and its node" err.log "✗ rank 3 (node2"
    contains "it goes on" err.log "restart 1 of 2 from the checkpoint of step"
    expect "the last loss" "$(losses undisturbed | tail -n 1)" "$(sed -n 's|.*step \([0-9]*\)/.*  loss \([0-9.]*\)  grad.*|\1 \2|p' run/generation-1/rank-0/stdout | tail -n 1)"
}
test_pytorch_script() {
    local python=/usr/bin/python3 script=$AUTOLAUNCH_SOURCE_DIR/examples/torch_ddp/train.py
    "$python" -c 'import torch.distributed as d; assert d.is_gloo_available()' 2>/dev/null ||
        { echo "   not tried: no torch.distributed with gloo in $python" && return; }
    export PYTHON_EXEC=$python
    login srun -N2 autolaunch --nproc-per-node 1 --log-dir run "$script" --steps 20 >out.log 2>err.log
    expect "exit code on two nodes" 0 "$?"
    login srun -N1 autolaunch --nproc-per-node 2 --log-dir alone "$script" --steps 20 >alone.out.log 2>alone.err.log
    expect "exit code on one node" 0 "$?"
    contains "both ranks" out.log "rank 1 of 2 on cpu: from step 1"
    expect "losses" "$(grep -o 'step .*loss.*' alone.out.log)" "$(grep -o 'step .*loss.*' out.log)"
}
run_tests
