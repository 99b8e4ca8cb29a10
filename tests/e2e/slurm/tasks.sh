#!/bin/bash
# One task a rank: srun starts as many autolaunch as there are ranks, and Slurm's account of its tasks is right.
. "$(dirname "$0")/lib.sh"
export CLUSTER_GPUS="4 2 4" # nodes of different size
start_cluster 3

test_one_task_a_rank() {
    local rank
    spec 2 "$misbehave" facts,meet
    one_line -N3 --ntasks-per-node=2 --
    expect "exit code" 0 "$code"
    contains "the size" err.log "3 nodes x 2 ranks"
    for rank in {0..5}; do
        contains "all ranks met" "run/generation-0/rank-$rank/stdout" "all here"
        expect "rank $rank, as Slurm's task" "$rank $((rank % 2)) $((rank / 2)) 6" \
            "$(for name in SLURM_PROCID SLURM_LOCALID SLURM_NODEID SLURM_NTASKS; do fact "$rank" $name; done | paste -sd' ')"
        expect "rank $rank, as torchrun's" "$rank $((rank % 2)) $((rank / 2)) 6" \
            "$(for name in RANK LOCAL_RANK GROUP_RANK WORLD_SIZE; do fact "$rank" $name; done | paste -sd' ')"
    done
}
test_one_task_a_rank_without_a_number() { # as many ranks as tasks
    printf 'trainer:\n  command: ["%s", "facts,meet"]\n' "$misbehave" >train.yaml
    one_line -N2 -n3 --
    expect "exit code" 0 "$code"
    expect "ranks" 3 "$(ranks_that_met run)"
    expect "nodes of the ranks" "node1 node1 node2" "$(for rank in 0 1 2; do fact $rank SLURMD_NODENAME; done | paste -sd' ')"
}
test_one_task_a_gpu_on_nodes_of_different_size() { # 4 GPUs and 2; each rank keeps the GPU that Slurm gave to its task
    local rank
    printf 'trainer:\n  command: ["%s", "facts,meet"]\n' "$misbehave" >train.yaml
    one_line -N2 -w node1,node2 -n6 --gpus-per-task=1 --
    expect "exit code" 0 "$code"
    expect "ranks that met" 6 "$(ranks_that_met run)"
    expect "nodes and GPUs" "node1:0 node1:1 node1:2 node1:3 node2:0 node2:1" \
        "$(for rank in {0..5}; do echo "$(fact $rank SLURMD_NODENAME):$(fact $rank CUDA_VISIBLE_DEVICES)"; done | paste -sd' ')"
}
test_one_task_a_rank_that_fails() { # Slurm's own account of it is right
    # While a node still tidies up after a job before, Slurm takes the next one.
    spec 2 "$misbehave" hang hang hang "sleep:0.5,exit:5"
    one_line -N2 --ntasks-per-node=2 --
    expect "srun's exit code" 5 "$code"
    grep -qE 'node[23]: tasks? (2-)?3: Exited with exit code 5$' err.log || fail "srun does not name the task"
    contains "autolaunch names the rank" err.log "rank 3 (node"
    spec 2 "$misbehave" hang hang hang "sleep:0.5,crash"
    one_line -N2 --ntasks-per-node=2 --
    expect "srun's exit code" 139 "$code"
    grep -qE 'node[23]: tasks? (2-)?3: Exited with exit code 139$' err.log || fail "srun does not name the task"
}
test_shapes_that_cannot_be() {
    spec 2 "$misbehave" meet
    one_line -N2 --ntasks-per-node=4 --
    expect "exit code" 65 "$code"
    contains "why" err.log "4 tasks"
    contains "why" err.log "2 ranks"
    [ -e run/generation-0 ] && fail "ranks were started"
    return 0
}
run_tests
