#!/bin/bash
# srun gives every task a copy of its stdin: the rank that is to have it gets all of it, however much it is.
. "$(dirname "$0")/lib.sh"
start_cluster 2

# with_input SRUN'S OPTIONS -- AUTOLAUNCH'S: its ranks run sha1sum; this function's stdin is srun's
with_input() {
    local options=() code=0
    rm -rf run
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    "$cluster" on head timeout -k 5 100 srun "${options[@]}" autolaunch --log-dir run "${@:2}" sha1sum \
        >out.log 2>err.log || code=$?
    expect "exit code" 0 "$code"
}
read_by() { cat "run/generation-0/rank-$1/stdout"; }
numbers() { seq 1 1000000; } # 6.9 MB: more than srun and slurmstepd hold for a task that does not read
digest=$(numbers | sha1sum)
nothing=$(sha1sum </dev/null)

test_rank_0() {
    with_input -N2 -- -n 2 < <(numbers)
    expect "rank 0" "$digest" "$(read_by 0)"
    for rank in 1 2 3; do expect "rank $rank" "$nothing" "$(read_by $rank)"; done
}
test_one_task_a_rank_and_another_node() {
    with_input -N2 --ntasks-per-node=2 -- --stdin 3 < <(numbers)
    expect "rank 3" "$digest" "$(read_by 3)"
    expect "rank 0" "$nothing" "$(read_by 0)"
    with_input -N2 --ntasks-per-node=2 -- --stdin 1 < <(numbers)
    expect "rank 1, in a task of its own" "$digest" "$(read_by 1)"
}
test_all_ranks() {
    with_input -N2 --input=0 -- -n 2 --stdin all < <(numbers)
    for rank in 0 1 2 3; do expect "rank $rank" "$digest" "$(read_by $rank)"; done
}
test_no_input() {
    with_input -N2 --input=none -- -n 1 --stdin all < <(numbers)
    for rank in 0 1; do expect "rank $rank" "$nothing" "$(read_by $rank)"; done
}
run_tests
