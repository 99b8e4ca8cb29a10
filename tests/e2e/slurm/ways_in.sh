#!/bin/bash
# The ways into an allocation: sbatch, salloc, arrays, steps beside other steps, parts of an allocation, jobs at once.
. "$(dirname "$0")/lib.sh"
start_cluster 4

test_sbatch() {
    spec 2 "$misbehave" meet
    batch -N3 <<<'srun autolaunch -c train.yaml'
    expect "state" COMPLETED "$(job_field "$job" JobState)"
    expect "ranks" 6 "$(ranks_that_met runs/"$job"*)"
    contains "the banner names the job" batch.log "job $job"
    spec 2 "$misbehave" hang hang hang exit:7
    batch -N2 <<<'srun autolaunch -c train.yaml'
    expect "exit code of the job" "7:0" "$(job_field "$job" ExitCode)"
}
test_several_steps_of_a_job() {
    spec 2 "$misbehave" meet
    batch -N2 <<<'for i in 1 2 3; do srun autolaunch -c train.yaml || exit; done'
    expect "exit code of the job" "0:0" "$(job_field "$job" ExitCode)"
    expect "steps" 3 "$(grep -c '^done' batch.log)"
}
test_salloc() {
    spec 2 "$misbehave" meet,exit:0
    login salloc -N2 srun autolaunch --log-dir run -c train.yaml >out.log 2>err.log
    expect "exit code" 0 "$?"
    expect "ranks" 4 "$(ranks_that_met run)"
    spec 2 "$misbehave" meet,exit:0 meet,exit:6
    login salloc -N2 srun autolaunch --log-dir run6 -c train.yaml >out.log 2>err.log
    expect "exit code" 6 "$?"
}
test_job_array() {
    local task
    spec 2 "$misbehave" facts,meet
    batch --array=1-3 -N2 <<<'srun autolaunch --log-dir run-$SLURM_ARRAY_TASK_ID -c train.yaml'
    for task in 1 2 3; do
        expect "ranks of task $task" 4 "$(ranks_that_met run-$task)"
        contains "it knows its task" run-$task/generation-0/rank-3/stdout "env SLURM_ARRAY_TASK_ID=$task"
    done
}
test_overlap() { # beside another step on the same nodes
    spec 2 "$misbehave" meet
    batch -N2 <<<'srun sleep 60 &
        srun --overlap autolaunch --log-dir run -c train.yaml; code=$?; kill %1; exit $code'
    expect "exit code of the job" "0:0" "$(job_field "$job" ExitCode)"
    expect "ranks" 4 "$(ranks_that_met run)"
}
test_parts_of_an_allocation() { # two steps, each on its own half
    spec 2 "$misbehave" facts,meet,sleep:1
    batch -N4 --ntasks-per-node=1 <<<'
        srun -N2 -n2 --exclusive autolaunch --log-dir run -c train.yaml & first=$!
        srun -N2 -n2 --exclusive autolaunch --log-dir other -c train.yaml & second=$!
        wait $first && wait $second'
    expect "exit code of the job" "0:0" "$(job_field "$job" ExitCode)"
    expect "ranks of the first" 4 "$(ranks_that_met run)"
    expect "ranks of the second" 4 "$(ranks_that_met other)"
    expect "nodes" 4 "$(cat {run,other}/generation-0/rank-*/stdout | grep '^env SLURMD_NODENAME=' | sort -u | wc -l)"
}
test_jobs_on_the_same_nodes_at_once() {
    local name pids=()
    spec 2 "$misbehave" facts,meet,sleep:3
    for name in one two three; do
        login srun -N4 autolaunch --log-dir $name -c train.yaml >$name.out.log 2>$name.err.log &
        pids+=($!)
    done
    eventually "three jobs at once" eval '[ "$(login squeue -h -t RUNNING | wc -l)" = 3 ]'
    for name in one two three; do
        wait "${pids[0]}"
        expect "exit code of $name" 0 "$?"
        pids=("${pids[@]:1}")
        expect "ranks of $name" 8 "$(ranks_that_met $name)"
    done
    expect "ports of the stores" 3 "$(cat {one,two,three}/generation-0/rank-7/stdout | grep '^env MASTER_PORT=' | sort -u | wc -l)"
}
run_tests
