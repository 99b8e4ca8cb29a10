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
# What Slurm tells a task, and what names neither the job nor the connection to its srun.
slurm_words() { grep '^SLURM' | grep -vE '^SLURM_(JOB_?ID|JOB_NAME|TASK_PID|SRUN_COMM_PORT|STEP_LAUNCHER_PORT|CPU_BIND.*)=' | sort; }
test_ranks_of_one_agent_are_told_what_srun_tells_tasks() {
    local rank # on nodes that are named: one may still be ending what ran before
    login srun -O -N2 -w 'node[1-2]' --ntasks-per-node=3 bash -c 'env >native.$SLURM_PROCID' || fail "srun"
    spec 3 "$misbehave" facts,meet
    one_line -N2 -w 'node[1-2]' --
    expect "exit code" 0 "$code"
    for rank in {0..5}; do
        expect "what rank $rank is told" "$(slurm_words <native.$rank)" \
            "$(sed -n 's/^env //p' "run/generation-0/rank-$rank/stdout" | slurm_words)"
        expect "the pid of the agent's task" "" "$(fact "$rank" SLURM_TASK_PID)"
    done
}
test_launchers_inside_a_rank() {
    cat >inside.sh <<'SCRIPT'
[ "$RANK" = 1 ] || exit 0
exec >inside.log 2>&1
echo "srun $(srun --overlap -N1 -n1 bash -c 'echo $SLURM_PROCID/$SLURM_NTASKS')"
echo "srun of all $(srun --overlap hostname | sort | paste -sd,)"
echo "srun autolaunch $(srun --overlap -N2 -n2 autolaunch -q --log-dir "$PWD/below" -n 2 bash -c 'echo $RANK/$WORLD_SIZE/$SLURM_PROCID' |
    sed 's/.*] //' | sort | paste -sd' ')"
echo "autolaunch $(autolaunch -q --log-dir "$PWD/alone" -n 2 bash -c 'echo $RANK/$WORLD_SIZE/$SLURM_PROCID' 2>/dev/null |
    sed 's/.*] //' | sort | paste -sd' ')"
echo "mpirun $(mpirun --allow-run-as-root --oversubscribe --host "$(hostname):2" -n 2 bash -c 'echo $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE' |
    sort | paste -sd' ')"
echo "sbatch $(sbatch --wait --parsable -N1 -n1 -o "$PWD/sbatch.log" --wrap "srun hello; hello" >/dev/null && sort sbatch.log | cut -d: -f1 | paste -sd,)"
echo "hello $(srun --overlap -N1 -n1 hello | cut -d: -f1)"
SCRIPT
    printf 'trainer:\n  command: [bash, inside.sh]\nresource_management:\n  ranks_per_node: 2\n' >train.yaml
    one_line -N2 --
    expect "exit code" 0 "$code"
    contains "a step" inside.log "srun 0/1"
    contains "a step of as many tasks as ranks" inside.log "srun of all node1,node1,node2,node2"
    contains "a job of a step" inside.log "srun autolaunch 0/4/0 1/4/1 2/4/2 3/4/3"
    contains "a job of the rank's own" inside.log "autolaunch 0/2/0 1/2/1"
    command -v mpirun >/dev/null && contains "mpirun" inside.log "mpirun 0/2 1/2"
    contains "the library in another step" inside.log "hello rank 0 of 1, local rank 0 on node 0"
    contains "the library in another job" inside.log "sbatch rank 0 of 1, local rank 0 on node 0,rank 0 of 1, local rank 0 on node 0"
}
run_tests
