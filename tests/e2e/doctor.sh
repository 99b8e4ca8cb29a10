#!/bin/bash
# autolaunch doctor on this machine: what it prints, what it exits with, and what Slurm's programs get to see.
. "$(dirname "$0")/lib.sh"
unset "${!SLURM_@}" "${!NCCL_@}"

# code EXPECTED WHAT ARGUMENTS...
code() {
    local expected=$1 what=$2
    shift 2
    "$AUTOLAUNCH" doctor "$@" >out.log 2>err.log </dev/null
    expect "exit code: $what" "$expected" "$?"
}

# Only what this test can bring about: the machine may have troubles of its own.
code 0 "a folder that is fine" --only storage --folder "$work"
contains "the closing line" out.log "✓ 1 check fine"
expect "probe files left" "" "$(find "$work" -name '.autolaunch-probe*')"
touch in-the-way
code 78 "a folder that cannot be written" --only storage,machine --folder "$work/in-the-way"
contains "the check, the folder and why" out.log "✗ storage  $work/in-the-way (named folder): cannot create a file: Not a directory"
contains "what to do" out.log "fix: "
contains "what is fine" out.log "✓ 1 check fine"
grep -q $'\x1b' out.log && fail "colours in a file"

printf 'checkpoint: {enabled: true, checkpoint_dir: %s}\n' "$work/in-the-way/ckpt" >train.yaml
code 78 "the spec's checkpoint folder" --only storage -c train.yaml
contains "the folder" out.log "(checkpoints)"
code 0 "an override of it" --only storage -c train.yaml "checkpoint.checkpoint_dir=$work/ckpt"

"$AUTOLAUNCH" doctor --json --only storage,machine >out.log || fail "--json failed"
python3 - <<'PYTHON' || fail "not the JSON of docs/doctor.md: $(cat out.log)"
import json, os
whole = json.load(open("out.log"))
assert set(whole) == {"findings", "nodes"}
[node] = whole["nodes"]
assert set(node) == {"node", "facts", "fine", "nothing_to_look_at", "not_checked"}
assert node["facts"]["kernel"] == os.uname().release, node
PYTHON

code 0 "health, when all is well" --health-check --only storage
expect "what is printed then" "" "$(cat out.log err.log)"
code 78 "health, with a failure" --health-check --only storage --folder "$work/in-the-way"
expect "lines" 1 "$(wc -l <out.log)"
contains "the reason" out.log "[node_problem] storage: $work/in-the-way (named folder)"
[ "$(wc -c <out.log)" -le 161 ] || fail "the reason is long"

# GPUs, as a driver tells of them.
export AUTOLAUNCH_NVML_LIBRARY=$AUTOLAUNCH_BINARY_DIR/tests/fake_nvml.so FAKE_NVML_MACHINE=$work/driver
[ -e "$AUTOLAUNCH_NVML_LIBRARY" ] || fail "the target fake_nvml is not built"
printf 'driver 550.54.15\ncuda 12040\ngpu 0000:17:00.0 GPU-1 NVIDIA H100\nremap 0 1\n' >driver
code 78 "a GPU with a bad row" --only gpus,row_remap,ecc
contains "the GPU" out.log "✗ row_remap  GPU 0000:17:00.0 could not remap a bad row of its memory · fix: replace the GPU"
contains "what was fine" out.log "✓ 1 check fine"
contains "what the GPU does not tell" out.log "ecc: these GPUs do not tell"
printf 'init 9\n' >driver
code 0 "a driver that is not loaded" --only gpus
contains "it is not checked" out.log "? not checked: gpus: no NVML:"
unset AUTOLAUNCH_NVML_LIBRARY FAKE_NVML_MACHINE

# A warning is for --fail-on warn only.
(ulimit -n 512 && "$AUTOLAUNCH" doctor --only nofile >out.log)
expect "exit code with a warning" 0 "$?"
contains "the warning" out.log "! nofile  at most 512 open files"
(ulimit -n 512 && "$AUTOLAUNCH" doctor --only nofile --fail-on warn >out.log)
expect "exit code with a warning that counts" 1 "$?"
(ulimit -n 512 && "$AUTOLAUNCH" doctor --only nofile --health-check >out.log)
expect "exit code of health with a warning" 0 "$?"
expect "what is printed then" "" "$(cat out.log)"

# Draining, with a scontrol that writes down what it is told.
mkdir bin
printf '#!/bin/bash\nprintf "%%s\\n" "$*" >>%q/scontrol.log\n[ "$1" = show ] && echo "NodeName=n State=$STATE"\nexit 0\n' "$work" >bin/scontrol
chmod +x bin/scontrol
PATH=$work/bin:$PATH STATE=IDLE SLURMD_NODENAME=node7 "$AUTOLAUNCH" doctor --health-check --drain --only storage --folder "$work/in-the-way" >out.log
expect "exit code" 78 "$?"
contains "the node and the reason" scontrol.log "update NodeName=node7 State=DRAIN Reason=[node_problem] storage:"
rm scontrol.log
PATH=$work/bin:$PATH STATE=IDLE+DRAIN SLURMD_NODENAME=node7 "$AUTOLAUNCH" doctor --health-check --drain --only storage --folder "$work/in-the-way" >out.log
grep -q update scontrol.log && fail "an administrator's reason was overwritten"
PATH=$work/bin:$PATH STATE=IDLE SLURMD_NODENAME=node7 "$AUTOLAUNCH" doctor --health-check --drain --only storage >out.log
expect "calls of scontrol when all is well" 1 "$(wc -l <scontrol.log)"

code 64 "a check that does not exist" --only memlok
contains "the nearest" err.log "did you mean memlock?"
code 64 "--drain by itself" --drain
code 64 "an unknown level" --fail-on hint
code 64 "a program" ./train
code 65 "a spec that is wrong" -c train.yaml nonsense.key=1
code 0 "help" --help
contains "the options" out.log "--health-check"
env -i "$AUTOLAUNCH" doctor --only machine >/dev/null 2>err.log
expect "exit code with an empty environment" 0 "$?"

start=$SECONDS
"$AUTOLAUNCH" doctor >out.log 2>err.log
[ $((SECONDS - start)) -le 12 ] || fail "it took $((SECONDS - start)) s"
[ -s out.log ] || fail "it printed nothing"
echo "passed"
