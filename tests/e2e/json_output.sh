#!/bin/bash
# Each command that prints for people prints JSON too: one object or array on stdout, nothing else there, keys as documented.
. "$(dirname "$0")/lib.sh"
printf 'trainer:\n  command: ["true"]\n' >good.yaml
printf 'trainer:\n  comand: ["true"]\n' >bad.yaml
printf '#!/bin/bash\n#SBATCH --nodes=2\nsrun true\n' >job.sh
"$AUTOLAUNCH" --nproc-per-node 1 --log-dir run true >/dev/null 2>&1 </dev/null || fail "the job"
python3 - >model.safetensors <<'EOS'
import json, struct, sys
header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
sys.stdout.buffer.write(struct.pack("<Q", len(header)) + header + struct.pack("<2f", 1, 2))
EOS
# prints CODE KEYS COMMAND...: the keys are of the object, or of the first object of the array.
prints() {
    local code=$1 keys=$2 got=0
    shift 2
    timeout 60 "$AUTOLAUNCH" "$@" >out.log 2>err.log </dev/null || got=$?
    [ "$got" -eq "$code" ] || failed "autolaunch $*: exit code $got, expected $code: $(cat err.log)"
    python3 - "$keys" <<'EOS' || failed "autolaunch $*: not JSON with $keys: $(head -c 400 out.log)"
import json, sys
d = json.load(open("out.log"))
d = d[0] if isinstance(d, list) else d
missing = [key for key in sys.argv[1].split(",") if key not in d]
assert not missing, missing
EOS
}
prints 0 format,file,valid,errors validate --json good.yaml
prints 65 format,file,valid,errors validate bad.yaml --json
python3 -c 'import json; e = json.load(open("out.log"))["errors"][0]; assert e["line"] == 2 and e["key"] == "trainer.comand", e' ||
    failed "validate --json: $(cat out.log)"
prints 66 format,file,valid,errors validate nowhere.yaml --json
timeout 60 "$AUTOLAUNCH" lint --json job.sh >out.log 2>err.log </dev/null
json '"findings" in d and d["version"] == 1'
prints 0 version,rules lint --rules --json
prints 0 format,ranks plan -c good.yaml --json
prints 0 format,job_id,script,spec,notes submit -c good.yaml --dry-run --json
prints 0 hostname,source topo --json
prints 0 format,state,at,ranks,news,gaps top run --once --json
"$AUTOLAUNCH" topo --json >machine.json
prints 0 hostname,source topo --json "$AUTOLAUNCH_SOURCE_DIR/tests/data/topology/hwloc2.xml"
timeout 60 "$AUTOLAUNCH" doctor --only memlock,shm --standalone --json >out.log 2>err.log </dev/null
json '"findings" in d and "nodes" in d'
prints 0 '$schema' schema --json
prints 0 format,command,path,step ckpt convert model.safetensors saved --json
prints 0 directory,checkpoints ckpt ls saved --json
prints 0 step ckpt show saved --json
prints 0 path ckpt verify saved --json
prints 0 format,command,path,ranks ckpt reshard saved two --ranks 2 --json
prints 0 format,command,files ckpt export saved out.safetensors --json
prints 0 format,command,deleted ckpt prune saved --keep 1 --json
prints 0 format,command,path ckpt keygen key.txt --json
timeout 60 "$AUTOLAUNCH" ckpt diff saved two --json >out.log 2>err.log </dev/null
json 'isinstance(d, (dict, list))'
prints 0 format,runs,summary report run --json
prints 0 format,dry_run,jobs,drain clean --json
prints 0 format,folder,files render grafana --json
# Every command that has a --json in its help is above, and every command has one.
for command in plan submit validate schema topo lint doctor ckpt report clean render; do
    "$AUTOLAUNCH" "$command" --help | grep -q -- --json || failed "$command has no --json"
    grep -qE "(autolaunch |\"\\\$AUTOLAUNCH\" |prints [0-9]+ [^ ]+ )$command " "$AUTOLAUNCH_SOURCE_DIR/tests/e2e/json_output.sh" || failed "$command is not walked here"
done
count_failures
