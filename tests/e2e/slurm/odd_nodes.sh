#!/bin/bash
# Nodes that are not alike: another hostname, interface or clock, folders that are not shared, other files, programs or
# variables. What does no harm works, what does is refused and named.
. "$(dirname "$0")/lib.sh"
start_cluster 3

meets() { # WHAT: 6 ranks on 3 nodes
    expect "exit code $1" 0 "$code"
    expect "ranks that met $1" 6 "$(ranks_that_met run)"
}
test_another_hostname() {
    "$cluster" on node2 hostname compute-17.example.org
    "$cluster" on node1 hostname localhost
    spec 2 "$misbehave" meet
    one_line -N3 --
    meets "with hostnames of their own"
    "$cluster" on node2 hostname node2
    "$cluster" on node1 hostname node1
}
test_another_interface() {
    "$cluster" on node2 bash -c 'ip link set eth0 down && ip link set eth0 name net0 && ip link set net0 up && ip addr add fd77::12/64 dev net0 nodad'
    spec 2 "$misbehave" meet
    one_line -N3 --
    meets "with another interface name"
    "$cluster" on node2 bash -c 'ip link set net0 down && ip link set net0 name eth0 && ip link set eth0 up && ip addr add fd77::12/64 dev eth0 nodad'
}
test_another_interface_with_an_address_of_the_same_kind() { # docker0 and the like: the same address on every node
    local node
    for node in node1 node2 node3; do
        "$cluster" on $node ip link add docker0 type bridge
        "$cluster" on $node ip addr add 172.17.0.1/16 dev docker0
        "$cluster" on $node ip link set docker0 up
    done
    spec 2 "$misbehave" meet
    one_line -N3 --
    meets "with docker0 on each"
    for node in node1 node2 node3; do "$cluster" on $node ip link del docker0; done
}
test_another_clock() {
    "$cluster" clock node2 +100  # Slurm itself refuses a launch at 120 s
    eventually "node2" login srun -w node2 true
    spec 2 "$misbehave" meet
    one_line -N3 --
    meets "with a clock that is ahead"
    "$cluster" kill node2
    "$cluster" boot node2
    eventually "node2" login srun -w node2 true
}
test_run_directory_is_not_shared() {
    local ranks
    spec 2 "$misbehave" meet,say:told
    login srun -N3 autolaunch --log-dir /tmp/run -c train.yaml >out.log 2>err.log
    expect "exit code" 0 "$?"
    for ranks in 0-1 2-3 4-5; do contains "lines on the screen" err.log "[ranks $ranks ×2] told"; done
    "$cluster" on node3 grep -q 'all here' /tmp/run/generation-0/rank-5/stdout || fail "no file of rank 5 on its node"
    spec 2 "$misbehave" hang hang hang hang hang "sleep:0.3,say:shard 71 is truncated,exit:4"
    login srun -N3 autolaunch --log-dir /tmp/run2 -c train.yaml >out.log 2>err.log
    expect "exit code" 4 "$?"
    contains "last lines, from the other node" err.log "| shard 71 is truncated"
    all_hosts rm -rf /tmp/run /tmp/run2
}
test_folder_of_the_login_node() { # XDG_RUNTIME_DIR comes along with srun, the folder does not
    "$cluster" on head mkdir -m 700 /run/user-0
    spec 2 "$misbehave" meet
    XDG_RUNTIME_DIR=/run/user-0 one_line -N3 --
    meets "with the login node's XDG_RUNTIME_DIR"
    "$cluster" on head rmdir /run/user-0
}
test_ordinary_user() {
    cp "$AUTOLAUNCH" "$misbehave" .  # the build may be below a home that is closed to others
    spec 2 "$PWD/$(basename "$misbehave")" meet
    chmod 1777 . && chmod 755 ..
    "$cluster" on head setpriv --reuid daemon --regid daemon --clear-groups \
        timeout 60 srun -N3 "$PWD/autolaunch" --log-dir run -c train.yaml >out.log 2>err.log
    code=$?
    meets "as an ordinary user"
    expect "owner of the run directory" daemon "$(stat -c %U run)"
}
# refused WHY...: nothing was started, and the screen says why
refused() {
    local text
    [ "$code" -ne 0 ] || fail "exit code 0"
    [ -e run/generation-0 ] && fail "ranks were started"
    for text; do contains "why" err.log "$text"; done
}
test_another_spec() {
    spec 2 "$misbehave" meet
    all_hosts mkdir /tmp/spec
    all_hosts cp train.yaml /tmp/spec/train.yaml
    "$cluster" on node2 bash -c 'echo "restart: {max_restarts: 2}" >>/tmp/spec/train.yaml'
    login srun -N3 autolaunch --log-dir run -c /tmp/spec/train.yaml >out.log 2>err.log
    code=$?
    refused node2 train.yaml
    all_hosts rm -r /tmp/spec
}
test_another_program() {
    spec 2 "$misbehave" meet
    all_hosts cp "$AUTOLAUNCH" /tmp/autolaunch
    "$cluster" on node3 objcopy --set-section-flags .note.gnu.build-id=alloc --update-section \
        .note.gnu.build-id=<(objcopy -O binary --only-section=.note.gnu.build-id "$AUTOLAUNCH" /dev/stdout | tr '\0-\377' '\1-\377\0') /tmp/autolaunch
    login srun -N3 /tmp/autolaunch --log-dir run -c train.yaml >out.log 2>err.log
    code=$?
    refused node3
    all_hosts rm /tmp/autolaunch
}
test_another_environment() {
    spec 2 "$misbehave" meet
    login srun -N3 bash -c 'export LOADER_THREADS=$((SLURM_NODEID / 2)); exec autolaunch --log-dir run -c train.yaml' >out.log 2>err.log
    code=$?
    meets "with another environment"
    contains "the variable is named" err.log LOADER_THREADS
    contains "its node is named" err.log node3
}
run_tests
