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

# A model's size: what each rank keeps, and what would fit where that is too much.
cat >model.yaml <<SPEC
trainer: {command: [train]}
model_size: {parameters: 8030M, layers: 32, hidden: 4096, vocabulary: 128256}
distributed: {sharding_strategy: no_shard, mixed_precision: bf16}
resource_management: {memory_per_gpu: 80GiB}
SPEC
"$AUTOLAUNCH" plan -c model.yaml --topology "$machines/dgx/machine.xml" --json >plan.json 2>err.log || fail "no plan with a model"
expect "bytes of no_shard" "$((8030 * 16))000000" "$(planned 'plan["memory"]["total"] - plan["memory"]["padding"] - 4 * 8030 * 10**6')"
expect "a warning" True "$(planned 'any("shard_optimizer would fit" in warning for warning in plan["warnings"])')"
"$AUTOLAUNCH" plan -c model.yaml --topology "$machines/dgx/machine.xml" distributed.sharding_strategy=full_shard >out.log 2>err.log ||
    fail "no plan with full_shard"
contains "the table" out.log "memory of a rank before activations, full_shard on 8 ranks"
contains "the sum" out.log "in all        20.4 GiB   of 80.0 GiB (resource_management.memory_per_gpu)"
"$AUTOLAUNCH" plan -c model.yaml --topology "$machines/dgx/machine.xml" distributed.sharding_strategy=full_shard --json \
    >plan.json 2>err.log || fail "no plan as JSON"
before="$(planned 'plan["memory"]["total"] - plan["memory"]["masters"] - plan["memory"]["optimizer"]')"
"$AUTOLAUNCH" plan -c model.yaml --topology "$machines/dgx/machine.xml" distributed.sharding_strategy=full_shard --json \
    model_size.offload_optimizer=true >plan.json 2>err.log || fail "no plan with offload_optimizer"
expect "bytes with an optimizer on the host" "$before" "$(planned 'plan["memory"]["total"]')"
expect "bytes on the host" True "$(planned '18 * 8030 * 10**6 / 8 <= plan["memory"]["on_host"] < 18.1 * 8030 * 10**6 / 8')"
"$AUTOLAUNCH" plan -c model.yaml --topology "$machines/dgx/machine.xml" model_size.parameters=12Q >out.log 2>err.log &&
    fail "a number of parameters that is none"
contains "no number" err.log "model_size.parameters: expected a number such as 124M"

# NCCL: the spec's own words, a profile by name, and the user's nccl.conf.
cat >nccl.yaml <<SPEC
trainer: {command: [train], env: {NCCL_IB_SL: "3"}}
nccl: {profile: azure, env: {NCCL_CROSS_NIC: "0"}}
SPEC
echo "NCCL_IB_TIMEOUT=21" >site.conf
NCCL_CONF_FILE=$work/site.conf "$AUTOLAUNCH" plan -c nccl.yaml --topology "$machines/dgx/machine.xml" --json >plan.json \
    2>err.log || fail "no plan with a profile"
expect "profile" azure "$(planned 'plan["nccl"]["profile"]')"
choice() { planned "[(c['value'], c['source']) for c in plan['nccl']['$1'] if c['name'] == '$2']"; }
expect "set by the profile" "[('1', 'profile azure')]" "$(choice set NCCL_IB_PCI_RELAXED_ORDERING)"
expect "kept from nccl.env" "[('0', 'nccl.env')]" "$(choice kept NCCL_CROSS_NIC)"
expect "kept from trainer.env" "[('3', 'trainer.env')]" "$(choice kept NCCL_IB_SL)"
expect "kept from nccl.conf" "[('21', '$work/site.conf:1')]" "$(choice kept NCCL_IB_TIMEOUT)"
expect "in the ranks" 1 "$(planned 'sum(c["name"] == "NCCL_IB_PCI_RELAXED_ORDERING" for c in plan["ranks"][0]["environment"])')"
expect "a file of the machine" True "$(planned 'any("NCCL_TOPO_FILE is left out" in note for note in plan["notes"])')"
"$AUTOLAUNCH" plan -c nccl.yaml --topology "$machines/dgx/machine.xml" nccl.manage=false --json >plan.json 2>err.log ||
    fail "no plan with nccl.manage=false"
expect "nothing is managed" "'' []" "$(planned '"%r %r" % (plan["nccl"]["profile"], plan["nccl"]["set"])')"
"$AUTOLAUNCH" plan -c nccl.yaml --topology "$machines/dgx/machine.xml" nccl.profile=azur >out.log 2>err.log && fail "a misspelt profile"
contains "a misspelt profile" err.log "did you mean azure?"

# A profile by itself: by what the saved machine says of itself, never by what this one is.
tag='<info name="DMIChassisAssetTag" value="7783-7084-3265-9085-8269-3286-77"/>'
sed "0,/<info name=\"HostName\"/s##$tag<info name=\"HostName\"#" "$machines/dgx/machine.xml" >azure.xml
grep -q "$tag" azure.xml || fail "the machine could not be made Azure's"
"$AUTOLAUNCH" plan --topology azure.xml --json >plan.json 2>err.log || fail "no plan for a machine of Azure's"
expect "profile by itself" azure "$(planned 'plan["nccl"]["profile"]')"
"$AUTOLAUNCH" plan --topology "$machines/dgx/machine.xml" --json >plan.json 2>err.log || fail "no plan"
expect "no profile by itself" "" "$(planned 'plan["nccl"]["profile"]')"
expect "the file says nothing" True "$(planned 'any("does not say what machine" in note for note in plan["notes"])')"

# A folder has the machine's own nccl.conf and the files that a profile names.
folder=vm
mkdir -p $folder/sys/devices/system/cpu $folder/sys/class/dmi/id $folder/sys/bus/pci/{devices,drivers/nvidia} $folder/etc \
    $folder/opt/microsoft/ndv5 $folder/sys/devices/pci0000:00/0000:01:00.0
echo 0-3 >$folder/sys/devices/system/cpu/online
echo 7783-7084-3265-9085-8269-3286-77 >$folder/sys/class/dmi/id/chassis_asset_tag
gpu=$folder/sys/devices/pci0000:00/0000:01:00.0
echo 0x10de >$gpu/vendor; echo 0x030200 >$gpu/class; echo 0 >$gpu/numa_node
ln -s ../../../devices/pci0000:00/0000:01:00.0 $folder/sys/bus/pci/devices/0000:01:00.0
ln -s ../../../../devices/pci0000:00/0000:01:00.0 $folder/sys/bus/pci/drivers/nvidia/0000:01:00.0
echo "NCCL_IB_RETRY_CNT=6" >$folder/etc/nccl.conf
echo '<system version="1"><cpu numaid="0"><pci busid="0000:01:00.0" class="0x030200"/></cpu></system>' \
    >$folder/opt/microsoft/ndv5/topo.xml
"$AUTOLAUNCH" plan --topology $folder --json >plan.json 2>err.log || fail "no plan for a folder: $(cat err.log)"
expect "a folder's profile" azure "$(planned 'plan["nccl"]["profile"]')"
expect "a folder's nccl.conf" "[('6', '$folder/etc/nccl.conf:1')]" "$(choice kept NCCL_IB_RETRY_CNT)"
expect "a folder's topology file" "[('/opt/microsoft/ndv5/topo.xml', 'profile azure')]" "$(choice set NCCL_TOPO_FILE)"

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
