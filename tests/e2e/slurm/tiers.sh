#!/bin/bash
# Checkpoints on two nodes' own disks, drained to a directory that both see: the job goes on from there after a node lost
# its disk, and from the disks while nothing was lost.
. "$(dirname "$0")/lib.sh"
start_cluster 2
export OMP_NUM_THREADS=1
rank=$AUTOLAUNCH_BINARY_DIR/tests/integration/tier_rank

job() { # RUN_DIRECTORY STEPS ARGUMENT...: /tmp is each node's own
    spec 2 "$rank" /tmp/near "$PWD/far" "$2" local=1 "${@:3}"
    login srun -N2 autolaunch --log-dir "$1" -c train.yaml trainer.mpi=pmix >"$1.log" 2>"$1.err.log"
}
came_from() { grep -h '^from' "$1"/generation-0/rank-*/stdout | sort -u; }
clear_nodes() { all_hosts rm -rf /tmp/near; }

test_lost_disk() {
    job first 10
    expect "exit code" 0 "$?"
    expect "checkpoints in the second place" "step-00000005 step-00000010 " "$(ls far | grep ^step | tr '\n' ' ')"
    for node in node1 node2; do
        expect "what is on $node" 3 "$("$cluster" on "$node" ls /tmp/near/step-00000010 | wc -l)"
    done
    grep -qh '"event":"checkpoint".*"path":"[^"]*/far/step-00000010"' first/events*.jsonl ||
        fail "not announced from the second place: $(grep -h far first/events*.jsonl)"
    job second 20
    expect "where all ranks went on from" "from 10 /tmp/near/step-00000010" "$(came_from second)"
    "$cluster" on node2 rm -rf /tmp/near
    job third 30
    expect "where all ranks went on from" "from 20 $PWD/far/step-00000020" "$(came_from third)"
    expect "the newest" step-00000030 "$(ls far | grep ^step | tail -n 1)"
    clear_nodes
}
run_tests
