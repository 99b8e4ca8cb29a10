#!/bin/bash
# One line on 2, 4 and 8 nodes: every rank is there and knows who and where it is, and the screen says how they met.
. "$(dirname "$0")/lib.sh"
start_cluster 8

hello_on() { # NODES
    local ranks=$((2 * $1)) rank
    spec 2 hello
    one_line -N"$1" --
    expect "exit code" 0 "$code"
    for ((rank = 0; rank < ranks; rank++)); do
        contains "rank $rank" out.log "[node$((rank / 2 + 1)) $rank] rank $rank of $ranks, local rank $((rank % 2)) on \
node $((rank / 2)): the ranks add up to $((ranks * (ranks - 1) / 2))"
    done
    expect "lines of ranks" "$ranks" "$(grep -c 'add up to' out.log)"
    contains "the size" err.log "$1 nodes x 2 ranks"
    contains "how they met" err.log "joined    $1/$1 nodes in "
    contains "how they met" err.log " · head node1 · key from munge · TLS 1.3"
    contains "the placement of all" err.log "  placed    $ranks/$ranks ranks as planned in "
    sed -n 's/^ *joined *//p' err.log
}
test_two_nodes() { hello_on 2; }
test_four_nodes() { hello_on 4; }
test_eight_nodes() { hello_on 8; }

test_a_rank_knows_its_node() {
    local rank
    spec 2 "$misbehave" facts,meet
    one_line -N4 --
    expect "exit code" 0 "$code"
    for rank in {0..7}; do
        contains "all ranks met" "run/generation-0/rank-$rank/stdout" "all here"
        expect "rank $rank" "$rank $((rank % 2)) 8 2 $((rank / 2)) 4" \
            "$(for name in RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE; do fact "$rank" $name; done | paste -sd' ')"
        expect "Slurm's node of rank $rank" "node$((rank / 2 + 1))" "$(fact "$rank" SLURMD_NODENAME)"
        expect "the store of rank $rank" "$(fact 0 MASTER_ADDR):$(fact 0 MASTER_PORT)" "$(fact "$rank" MASTER_ADDR):$(fact "$rank" MASTER_PORT)"
    done
}
# 8 nodes with 8 ranks each: the largest that a test machine takes.
test_sixty_four_ranks() {
    spec 8 "$misbehave" meet
    one_line -N8 --
    expect "exit code" 0 "$code"
    expect "ranks that met" 64 "$(cat run/generation-0/rank-*/stdout | grep -c 'all here')"
}
run_tests
