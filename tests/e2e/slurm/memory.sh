#!/bin/bash
# Copies of training state in memory on two nodes: after a rank was killed, and after a node's memory was damaged.
. "$(dirname "$0")/lib.sh"
start_cluster 2
export OMP_NUM_THREADS=1
rank=$AUTOLAUNCH_BINARY_DIR/tests/integration/memory_rank

job() { # RUN_DIRECTORY ARGUMENT...
    spec 2 "$rank" "${@:2}"
    login srun -N2 autolaunch --log-dir "$1" -c train.yaml trainer.mpi=pmix restart.max_restarts=2 >"$1.log" 2>"$1.err.log"
}
digests() { cat "$1"/generation-*/rank-*/stdout | grep '^digest' | sort; }
came_from() { grep -h '^from' "$1/generation-$2"/rank-*/stdout | sort -u; }
pid_of() { sed -n "s/.*\"event\":\"rank_started\",\"rank\":$2,.*\"pid\":\([0-9]*\).*/\1/p" "$1"/events*.jsonl | head -n 1; }
calm() { # what nobody disturbed comes to
    job calm 30
    expect "exit code of the undisturbed run" 0 "$?"
    expect "ranks of the undisturbed run" 4 "$(digests calm | wc -l)"
}

test_killed_rank() {
    calm
    job killed 30 die=3:21
    expect "exit code" 0 "$?"
    expect "where all ranks came back from" 'from 20 memory {"step":20}' "$(came_from killed 1)"
    expect "the same bits" "$(digests calm)" "$(digests killed)"
    contains "the restart" killed.err.log "from the checkpoint of step 20"
    grep -qh "by each node's agent, and a second time on the next node" killed/events*.jsonl || fail "no word of the second copies"
}
# Every slot that node2's agent holds is written over, so that node has nothing; then one of its ranks is killed.
test_lost_memory_of_a_node() {
    calm
    job lost 30 hold="$PWD/go" &
    local job=$! damaged
    eventually "five steps" eval 'grep -qs "\"step\":5," lost/events*.jsonl'
    sleep 1
    damaged=$("$cluster" on node2 bash -c '
        for file in /proc/[0-9]*/fd/*; do
            [[ $(readlink "$file") == *autolaunch-memory* ]] || continue
            printf "overwritten" | dd of="$file" bs=1 seek=150000 conv=notrunc status=none && echo "$file"
        done')
    expect "slots of two ranks of its own and two of node1" 8 "$(echo "$damaged" | wc -l)"
    "$cluster" on node2 kill -9 "$(pid_of lost 2)"
    touch go
    wait "$job"
    expect "exit code" 0 "$?"
    grep -qh "is damaged and not used" lost/events*.jsonl || fail "no word of the damage"
    expect "where all ranks came back from" 'from 5 memory {"step":5}' "$(came_from lost 1)"
    expect "the same bits" "$(digests calm)" "$(digests lost)"
}
# An agent that is killed ends the job today, and nothing of the copies stays anywhere (nothing_left looks).
test_killed_agent() {
    job ended 1000 hold="$PWD/never" &
    local job=$!
    eventually "five steps" eval 'grep -qs "\"step\":5," ended/events*.jsonl'
    kill_on node2 KILL autolaunch
    wait "$job"
    [ $? -ne 0 ] || fail "a job that lost a node ended with 0"
    contains "the lost node" ended.err.log "✗ node2 was lost"
}
run_tests
