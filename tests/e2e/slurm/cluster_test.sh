#!/bin/bash
# The test cluster itself: two at once do not meet, each fault is one, and nothing stays when its owner is killed.
. "$(dirname "$0")/lib.sh"
start_cluster 3

names() { sort | tr '\n' ' '; }
node_answers() { timeout 2 "$cluster" on head bash -c "exec 3<>/dev/tcp/$1/6818" 2>/dev/null; }
node_is_silent() { ! node_answers "$1"; }

test_hosts_are_apart() {
    expect "the nodes" "node1 node2 node3 " "$(login srun -N3 hostname | names)"
    expect "GPUs" "0,1" "$(login srun -N1 --gpus=2 printenv CUDA_VISIBLE_DEVICES)"
    "$cluster" on node1 touch /tmp/mine /dev/shm/mine
    "$cluster" on node1 ipcmk -M 4096 >/dev/null
    "$cluster" on node1 bash -c 'setsid sleep 60 >/dev/null 2>&1 & echo $!
        for ((i = 0; i < 200; i++)); do [ "$(cat /proc/$!/comm)" = sleep ] && exit; sleep 0.05; done' >pid
    on node2 test -e /tmp/mine && fail "node2 sees node1's /tmp"
    "$cluster" left >left.log
    contains "what is left is found" left.log "node1: process $(cat pid): sleep 60"
    contains "what is left is found" left.log "node1: file /tmp/mine"
    contains "what is left is found" left.log "node1: file /dev/shm/mine"
    contains "what is left is found" left.log "node1: SysV: "
    "$cluster" on node1 bash -c 'rm /tmp/mine /dev/shm/mine; ipcrm -a; kill "$0"' "$(cat pid)"
}
test_two_at_once() {
    (
        export CLUSTER_STATE=$work/second
        "$cluster" up 1 || fail "no second cluster"
        expect "jobs of the second" "node1 " "$(login srun hostname | names)"
        login sbatch -o /dev/null --wrap "sleep 60" >/dev/null
        "$cluster" down
    ) || exit 1
    expect "jobs of the first" "" "$(login squeue -h)"
}
test_power_and_network() {
    "$cluster" cut node2
    eventually "silence of node2" node_is_silent node2
    "$cluster" heal node2
    eventually "node2's return" node_answers node2
    "$cluster" kill node3
    eventually "silence of node3" node_is_silent node3
    "$cluster" on node3 true 2>/dev/null && fail "node3 runs without power"
    "$cluster" boot node3
    eventually "node3's return" node_answers node3
    "$cluster" restart node2
    expect "jobs afterwards" "node1 node2 node3 " "$(login srun -N3 hostname | names)"
}
test_clocks_differ() {
    "$cluster" clock node2 +120 || fail "the clock cannot be set"
    eventually "node2's return" node_answers node2
    login srun -N2 bash -c 'echo "$(hostname) $(date +%s)"' >clocks
    local ahead=$(($(sed -n 's/node2 //p' clocks) - $(sed -n 's/node1 //p' clocks)))
    [ "$ahead" -ge 110 ] && [ "$ahead" -le 130 ] || fail "node2 is $ahead s ahead of node1"
    "$cluster" kill node2
    "$cluster" boot node2
    eventually "node2's return" node_answers node2
}
test_ends_with_its_owner() {
    CLUSTER_STATE=$work/orphan bash -c "CLUSTER_OWNER=\$\$ $cluster up 1 && echo up && sleep 60" >out.log 2>err.log &
    local owner=$! room
    eventually "a third cluster" grep -q up out.log
    read -r room _ <"$work/orphan/room"
    kill -9 "$owner"
    wait "$owner" 2>/dev/null
    eventually "its end" eval "[ ! -e /proc/$room ] && [ ! -e $work/orphan/room ]"
}
run_tests
