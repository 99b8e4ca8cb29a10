#!/bin/bash
# A plan for a machine that is not here: from a saved topology, without a scheduler, and without hwloc in the program.
. "$(dirname "$0")/lib.sh"

[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3 to read the plan with"
machines=$AUTOLAUNCH_SOURCE_DIR/tests/data/plan

# EXPRESSION over `plan`, of plan.json.
planned() { /usr/bin/python3 -c 'import json, sys; plan = json.load(open("plan.json")); print(eval(sys.argv[1]))' "$1"; }

"$AUTOLAUNCH" plan --topology "$machines/dgx/machine.xml" --nodes 4 --json >plan.json 2>err.log || fail "no plan"
expect "nodes" 4 "$(planned 'plan["nodes"]["count"]')"
expect "ranks" 32 "$(planned 'plan["world_size"]')"
expect "host" dgx "$(planned 'plan["hostname"]')"
expect "HCA of rank 5" "mlx5_5" "$(planned 'plan["ranks"][5]["hca"]["name"]')"
expect "file" "$machines/dgx/machine.xml" "$(planned 'plan["saved_machine"]')"

# With a spec and options; this machine's scheduler and grants do not count.
cat >spec.yaml <<SPEC
trainer: {command: [train]}
resource_management: {nodes: 2, binding: exclusive}
SPEC
SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_NNODES=9 SLURM_PROCID=0 SLURM_NODELIST=other CUDA_VISIBLE_DEVICES=3 \
    "$AUTOLAUNCH" plan -c spec.yaml --topology "$machines/dgx/machine.xml" --nproc-per-node 4 --json >plan.json 2>err.log ||
    fail "no plan with a spec"
expect "ranks with a spec" "8 4" "$(planned '"%d %d" % (plan["world_size"], len(plan["ranks"]))')"
expect "cores with a spec" 4 "$(planned 'plan["ranks"][0]["physical_cores"]')"

"$AUTOLAUNCH" plan --topology "$machines/flattened_vm/machine.xml" --numa-binding 'numa:0;numa:1;0;99' >out.log 2>err.log &&
    fail "a CPU that the saved machine lacks was planned with"
contains "a list that the saved machine cannot do" err.log 'resource_management.binding[3] "99": CPUs 99 may not be used'

"$AUTOLAUNCH" plan --topology none.xml >out.log 2>err.log && fail "a missing file was planned for"
contains "a missing file" err.log none.xml
echo "no XML" >bad.xml
"$AUTOLAUNCH" plan --topology bad.xml >out.log 2>err.log && fail "a broken file was planned for"
contains "a broken file" err.log bad.xml

# What reads saved machines is beside the program, and only loaded for them.
ldd "$AUTOLAUNCH" >ldd.log
grep -E "hwloc|udev|expat" ldd.log && fail "the program is linked with what only saved machines need"
cp "$AUTOLAUNCH" alone
./alone plan /bin/true >out.log 2>err.log || fail "no plan without autolaunch-capture.so"
./alone plan --topology "$machines/dgx/machine.xml" >out.log 2>err.log && fail "planned without autolaunch-capture.so"
contains "without autolaunch-capture.so" err.log "there is no autolaunch-capture.so"
echo "passed"
