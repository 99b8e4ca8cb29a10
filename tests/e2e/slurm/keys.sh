#!/bin/bash
# The job's key without MUNGE: a variable, a file, the shared run directory; and with none of them, what to do.
. "$(dirname "$0")/lib.sh"
start_cluster 2

# Slurm has another socket. The one that others look for is gone, as where MUNGE is not used.
no_munge_on() { # HOST...
    local host
    for host; do "$cluster" on "$host" rm -f /run/munge/munge.socket.2; done
}
key=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
joined_by() { # HOW
    expect "exit code" 0 "$code"
    contains "where the key is from" err.log " · key from $1 · TLS 1.3"
    expect "ranks that met" 4 "$(ranks_that_met run)"
    grep -rqF "$key" run *.log && fail "the key is in a file of the run"
    return 0
}
test_run_directory() {
    no_munge_on node1 node2
    spec 2 "$misbehave" meet
    one_line -N2 --
    joined_by "the file $PWD/.key"
}
test_variable() {
    no_munge_on node1 node2
    spec 2 "$misbehave" meet
    AUTOLAUNCH_JOB_KEY=$key one_line -N2 --
    joined_by AUTOLAUNCH_JOB_KEY
}
test_secret_file() {
    no_munge_on node1 node2
    spec 2 "$misbehave" meet
    (umask 077 && echo "$key" >secret)
    one_line -N2 -- rendezvous.secret_file=secret
    rm secret
    joined_by "the file secret"
}
test_secret_file_that_others_can_read() {
    no_munge_on node1 node2
    spec 2 "$misbehave" meet
    echo "$key" >secret && chmod 644 secret
    one_line -N2 -- rendezvous.secret_file=secret
    rm secret
    [ "$code" -ne 0 ] || fail "exit code 0"
    contains "what to do" err.log "chmod 600"
}
test_two_keys() { # each node has one of its own
    no_munge_on node1 node2
    spec 2 "$misbehave" meet
    login srun -N2 bash -c 'AUTOLAUNCH_JOB_KEY=$(printf %064d $SLURM_NODEID) exec autolaunch --log-dir run -c train.yaml rendezvous.timeout=5s' >out.log 2>err.log
    code=$?
    [ "$code" -ne 0 ] || fail "exit code 0"
    contains "the node" err.log node2
    contains "why" err.log key
}
test_none() {
    no_munge_on node1 node2
    spec 2 "$misbehave" meet
    all_hosts mkdir /tmp/alone
    all_hosts cp train.yaml /tmp/alone
    "$cluster" on head bash -c 'cd /tmp/alone && timeout 60 srun -N2 autolaunch -c train.yaml rendezvous.timeout=5s' >out.log 2>err.log
    code=$?
    all_hosts rm -r /tmp/alone
    expect "exit code" 77 "$code"
    contains "what to do" err.log MUNGE
    contains "what to do" err.log AUTOLAUNCH_JOB_KEY
    contains "what to do" err.log secret_file
}
test_munge_on_one_node_only() {
    "$AUTOLAUNCH" --version | grep -q '^MUNGE  *in' || { echo "   not tried: a build without MUNGE" && return; }
    "$cluster" on node1 ln -sf slurm.socket /run/munge/munge.socket.2
    no_munge_on node2
    spec 2 "$misbehave" meet
    one_line -N2 -- rendezvous.timeout=5s
    [ "$code" -ne 0 ] || fail "exit code 0"
    contains "the node" err.log node2
    contains "why" err.log munge
}
run_tests
