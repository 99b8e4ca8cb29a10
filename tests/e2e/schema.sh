# The JSON Schema, used as an editor would: Debian's python3-jsonschema accepts configs/ and refuses mistakes.
set -uo pipefail
python=/usr/bin/python3
if ! "$python" -c 'import jsonschema, yaml' 2>/dev/null; then
    echo "skipped: python3-jsonschema and python3-yaml are not installed for $python"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$AUTOLAUNCH" schema >"$work/schema.json" || exit 1
"$python" - "$work/schema.json" "$AUTOLAUNCH_SOURCE_DIR"/configs/*.yaml <<'END'
import json, sys, yaml
from jsonschema import Draft7Validator

schema = json.load(open(sys.argv[1]))
Draft7Validator.check_schema(schema)
validator = Draft7Validator(schema)
failed = 0

def expect(name, document, valid):
    global failed
    errors = [error.message for error in validator.iter_errors(document)]
    if bool(errors) == valid:
        failed += 1
        print("FAILED:", name, "should be", "valid" if valid else "refused", errors)

for file in sys.argv[2:]:
    expect(file, yaml.safe_load(open(file)), True)
for text in ["storage: {stage_in: [{from: /a, as: b, verify: SHA256SUMS}]}", "restart:", "restart: {max_restarts: 3, policy: {_target_: x}}", "distributed: {_target_: x, tp_size: 1}",
             "callbacks: [{_target_: x}]", "distributed: {sharding_strategy: FULL_SHARD}",
             "restart: {max_restarts: '${N}', backoff: 1h30m}", "resource_management: {ranks_per_node: gpu}", "rendezvous: {preflight: warn}", "rendezvous: {preflight: true}", "kubernetes: {image: i, volumes: [{mount: /d, claim: c}], rdma: {rdma/h: 1}, hugepages: {2Mi: 4GiB}, job_key: a/b, topology_spread: zone, image_pull_policy: IfNotPresent}",
             "resource_management: {ranks_per_node: 4, memory_per_gpu: 80GB}", "model: {anything: [1, {a: b}]}", "security: {audit: {enabled: true}}", "monitoring: {alerting: {enabled: false}}"]:
    expect(text, yaml.safe_load(text), True)
for text in ["storage: {stage_in: [{from: /a}]}", "restart: {max_restart: 3}", "restart: {max_restarts: x}", "monitor: {}", "foo: {}", "[1]",
             "nccl: {env: {X: 1}}", "trainer: {command: []}", "resource_management: {nodes: 0}",
             "resource_management: {binding: near}", "rendezvous: {preflight: warm}", "kubernetes: {volumes: [{mont: /d}]}", "kubernetes: {job_key: x}", "kubernetes: {rdma: {h: 1}}", "kubernetes: {run_as_user: 0}", "logging: {fold: 3}", "restart: {backoff: soon}"]:
    expect(text, yaml.safe_load(text), False)
print("schema:", "all as expected" if not failed else f"{failed} wrong")
sys.exit(failed > 0)
END
