#!/bin/bash
# autolaunch doctor under srun: nodes that are alike, and each way in which one is the odd one; Slurm's programs; and jobs
# that rendezvous.preflight lets begin, or not.
. "$(dirname "$0")/lib.sh"
start_cluster 4

doctor() { # OPTIONS: on 4 nodes; sets `code`
    login srun -N4 bash -c "${odd:-:}; exec autolaunch doctor --skip names,gpus,nofile \"\$@\"" - "$@" >out.log 2>err.log
    code=$?
}
only_on_node3() { odd="[ \$SLURMD_NODENAME = node3 ] && $1"; } # COMMAND
test_nodes_that_are_alike() {
    doctor
    expect "exit code" 0 "$code"
    grep -q 'where 3 others\|disagree' out.log && fail "nodes are said to differ: $(cat out.log)"
    contains "all nodes are counted" out.log "fine on 4 nodes"
}
test_one_task_a_rank() {
    login srun -N2 --ntasks-per-node=3 autolaunch doctor --only shm,machine,storage >out.log 2>err.log
    expect "exit code" 0 "$?"
    expect "closing lines" 1 "$(grep -c 'checks fine on 2 nodes' out.log)"
}
test_another_limit() {
    only_on_node3 "ulimit -l 64"
    doctor
    expect "exit code" 0 "$code"
    contains "the odd node" out.log "! memlock  node3: 64 KiB where 3 others have"
    doctor --fail-on warn
    expect "exit code when warnings count" 1 "$code"
}
test_another_resolver() {
    "$cluster" on node2 bash -c 'grep -v node4 /etc/hosts >/run/other-hosts && mount --bind /run/other-hosts /etc/hosts'
    login srun -N4 autolaunch doctor --only names >out.log 2>err.log
    "$cluster" on node2 umount /etc/hosts
    contains "the node, and whom it does not know" out.log "! names  node2: 1 of 3 peers are not found, such as node4"
}
test_another_clock() {
    "$cluster" clock node2 +120
    eventually "node2" login srun -w node2 true
    doctor --only clock,machine
    contains "the node and its clock" out.log "! clock  node2: its clock is 120 s ahead of the head's"
    "$cluster" kill node2
    "$cluster" boot node2
    eventually "node2" login srun -w node2 true
}
test_a_folder_that_one_node_cannot_write() {
    "$cluster" on node4 touch /tmp/ckpt
    doctor --only storage --folder /tmp/ckpt/run
    expect "exit code" 78 "$code"
    contains "node, folder and reason" out.log "✗ storage  node4: /tmp/ckpt/run (named folder): cannot create a file"
    login srun -N4 autolaunch doctor --json --only storage --folder /tmp/ckpt/run >out.log 2>err.log
    python3 -c 'import json; w = json.load(open("out.log")); assert w["findings"][0]["nodes"] == ["node4"] and len(w["nodes"]) == 4, w' ||
        fail "JSON: $(cat out.log)"
    "$cluster" on node4 rm /tmp/ckpt
}
test_from_a_batch_script() { # without srun it looks at its own node, and says so
    batch -N2 <<<"autolaunch doctor --only machine"
    contains "its own node" batch.log "✓ 1 check fine"
    contains "what to do" batch.log "srun autolaunch doctor checks all 2"
}
preflight_spec() {
    spec 2 "$misbehave" meet
    printf 'rendezvous: {preflight: true}\ncheckpoint: {enabled: true, checkpoint_dir: /tmp/ckpt/run}\n' >>train.yaml
}
test_preflight_lets_a_job_begin() {
    preflight_spec
    one_line -N4 --
    expect "exit code" 0 "$code"
    expect "ranks that met" 8 "$(ranks_that_met run)"
    grep -q 'no effect in this version' err.log && fail "preflight is said to have no effect"
    only_on_node3 "ulimit -l 64"
    login srun -N4 bash -c "$odd; exec autolaunch --log-dir run2 -c train.yaml" >out.log 2>err.log
    expect "exit code with a warning" 0 "$?"
    contains "the warning is shown" err.log "node3: memlock 64 KiB where 3 others have"
    grep -q 'node3: memlock 64 KiB' run2/events.jsonl || fail "the warning is no event"
}
test_preflight_stops_a_job() {
    preflight_spec
    "$cluster" on node2 touch /tmp/ckpt
    one_line -N4 --
    "$cluster" on node2 rm /tmp/ckpt
    expect "exit code" 78 "$code"
    contains "node, check and why" err.log "✗ storage  node2: /tmp/ckpt/run (checkpoints): cannot create a file"
    contains "what to do" err.log "fix: "
    expect "screens" 1 "$(grep -c 'not started: rendezvous.preflight' err.log)"
    [ -e run/generation-0 ] && fail "ranks were started"
    true
}
test_preflight_warns_of_what_would_stop_a_job() {
    preflight_spec
    "$cluster" on node2 touch /tmp/ckpt
    one_line -N4 -- rendezvous.preflight=warn
    "$cluster" on node2 rm /tmp/ckpt
    expect "exit code" 0 "$code"
    contains "node, check, why and what to do" err.log "warning   node2: storage /tmp/ckpt/run (checkpoints): cannot create a file"
    grep -q 'not started' err.log && fail "it is said not to start"
    expect "ranks that met" 8 "$(ranks_that_met run)"
}
test_health_check_drains() {
    "$cluster" on node1 touch /tmp/broken
    "$cluster" on node1 env SLURMD_NODENAME=node1 "$AUTOLAUNCH" doctor --health-check --drain --only storage --folder /tmp/broken >out.log 2>err.log
    expect "exit code" 78 "$?"
    [[ $(login scontrol show node -o node1) =~ State=[A-Z]*\+DRAIN ]] || fail "node1 is not drained: $(cat err.log)"
    [[ $(login scontrol show node -o node1) == *"Reason=[node_problem] storage: /tmp/broken"* ]] || fail "its reason is missing"
    login scontrol update NodeName=node1 State=RESUME
    "$cluster" on node1 rm /tmp/broken
    eventually "node1" login srun -w node1 true
}
run_tests
