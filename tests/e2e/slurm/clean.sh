#!/bin/bash
# What a job leaves behind on Slurm's nodes: a certificate of each, also of the node whose autolaunch was killed whole, by the
# next start there or by `autolaunch clean`, of which root's in Slurm's Epilog comes by itself.
. "$(dirname "$0")/lib.sh"
for_all_users
epilog=$work/epilog.sh
export CLUSTER_CONF=$'KillWait=3\nEpilog='$epilog
cat >"$epilog" <<EOF
#!/bin/sh
[ ! -e "$work/epilog" ] || "$AUTOLAUNCH" clean --job "\$SLURM_JOB_ID" >>"$work/epilog.said" 2>&1
EOF
chmod +x "$epilog"
start_cluster 4

left_on() { "$cluster" left | grep -c "^$1: .*misbehave"; }
is_left() { [ "$(left_on node2)" -ge 1 ]; }
none_on_node2() { [ "$(left_on node2)" = 0 ]; }
certificate() { # NODE'S FILE EXPRESSION
    cp "run/$1" out.log && json "$2"
}
# orphan RUNS-AS...: a job whose autolaunch on node2 is killed as one piece, so that none of the three sees the others' end
orphan() {
    spec 2 "$misbehave" daemon,stubborn-child,hang
    rm -rf run
    login srun -N4 --no-kill --wait=3 "$@" autolaunch --log-dir run -c train.yaml restart.grace_period=1s >out.log 2>err.log &
    job=$!
    eventually "ranks on all nodes" started 8
    "$cluster" on node2 pkill -STOP 'autolaunch|guardian'
    "$cluster" on node2 pkill -KILL 'autolaunch|guardian'
    wait "$job" && fail "srun exited with 0"
    id=$(python3 -c 'import json; print(json.load(open("run/plan.json"))["run_id"])')
}

test_clean_after_all_was_killed() {
    orphan
    is_left || fail "nothing was left on node2: the test shows nothing"
    [ ! -e run/exit.node-1.json ] || fail "node2 has a certificate already"
    local node
    for node in exit.json exit.node-2.json exit.node-3.json; do
        certificate $node 'd["clean"] and d["by"] == "agent" and any(g["kind"] == "process" and g["count"] == 2 for g in d["gone"])'
    done
    expect "the nodes that they are of" "node1 node3 node4" "$(sed -n 's/.*"node": "\(.*\)",/\1/p' run/exit*.json | sort | paste -sd' ')"
    login srun -N4 autolaunch clean --job "$id" >out.log || fail "clean: exit code $?"
    contains "the job" out.log "job $id"
    eventually "the end of all on node2" none_on_node2
    certificate exit.node-1.json 'd["by"] == "clean" and d["clean"] and d["node"] == "node2"'
}
test_next_start_after_all_was_killed() {
    orphan
    is_left || fail "nothing was left on node2: the test shows nothing"
    login srun -w node2 autolaunch -n 1 --log-dir next true >out.log 2>err.log || fail "the next job: exit code $?"
    contains "whose" err.log "of job $id, whose autolaunch was killed, were ended"
    eventually "the end of all on node2" none_on_node2
    certificate exit.node-1.json 'd["by"] == "the next start" and d["clean"]'
}
test_epilog_cleans_after_another_user() {
    touch "$work/../epilog"
    chmod 1777 .
    orphan setpriv --reuid=65534 --regid=65534 --clear-groups
    eventually "the end of all on node2" none_on_node2
    eventually "its certificate" test -s run/exit.node-1.json
    certificate exit.node-1.json 'd["by"] == "clean" and d["clean"]'
    expect "whose certificate it is" 65534 "$(stat -c %u run/exit.node-1.json)"
    contains "what the epilog said" "$work/../epilog.said" "of user 65534"
    rm "$work/../epilog"
}
run_tests
