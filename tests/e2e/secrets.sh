# What is printed and recorded holds no secrets, says that they are set, and still reaches the ranks.
. "$(dirname "$0")/lib.sh"

export DB_PASSWORD=hunter2
cat >t.yaml <<'END'
trainer:
  command: [/bin/sh, -c, 'echo "$HF_TOKEN $PLAIN" >seen', x, --api-key, opensesame]
  env: {HF_TOKEN: hf_SECRET123, PLAIN: "${DB_PASSWORD}", EMPTY_TOKEN: "", URL: "pg://me:letmein@db/x"}
END
cat >bad.yaml <<'END'
resource_management: {nodes: "${HF_TOKEN}", gpus_per_node: "${DB_PASSWORD}"}
trainer: {env: {API_KEY: {a: 1}}}
END
cat >job.sh <<'END'
#!/bin/bash
#SBATCH --nodes=2 --comment=hf_SECRET123
export NCCL_DEBUG=hf_SECRET123 HF_TOKEN="quiet one"
srun mpirun -np 4 train --api-key=opensesame
END
secrets='hf_SECRET123|SECRET123|hunter2|opensesame|letmein|quiet one'

# hidden NAME COMMAND...: nothing of it is a secret, and it says something.
hidden() {
    local name=$1
    shift
    HF_TOKEN=hf_SECRET123 "$@" >"$name.out" 2>&1
    [ -s "$name.out" ] || failed "$name: no output"
    grep -nE "$secrets" "$name.out" && failed "$name shows a secret"
}
hidden plan "$AUTOLAUNCH" plan -c t.yaml
grep -qE '^  HF_TOKEN +\*\*\*' plan.out || failed "plan does not say that HF_TOKEN is set"
hidden plan_json "$AUTOLAUNCH" plan --json -c t.yaml
python3 - <<'END' || failed "plan --json is not what it should be"
import json
variables = {v["name"]: v["value"] for v in json.load(open("plan_json.out"))["ranks"][0]["environment"]}
assert variables["HF_TOKEN"] == "***" and variables["PLAIN"] == "***" and variables["EMPTY_TOKEN"] == "", variables
assert variables["URL"] == "pg://me:***@db/x", variables
END
hidden validate "$AUTOLAUNCH" validate bad.yaml trainer.env.OTHER_KEY.x=hf_SECRET123 restart.max_restarts=hf_SECRET123
grep -qF 'found ***' validate.out || failed "validate does not say that something was found: $(cat validate.out)"
hidden lint "$AUTOLAUNCH" lint job.sh
hidden lint_json "$AUTOLAUNCH" lint --json job.sh
python3 -c 'import json; json.load(open("lint_json.out"))' || failed "lint --json is no JSON"
hidden usage "$AUTOLAUNCH" plan --nproc-per-node hf_SECRET123 true
hidden override "$AUTOLAUNCH" API_KEY=opensesame
hidden run "$AUTOLAUNCH" -c t.yaml --log-dir run
hidden files grep -rhv nothing run --include='plan*.json' --include='events*.jsonl'
[ "$(cat seen)" = "hf_SECRET123 hunter2" ] || failed "the rank's environment is not what the spec says: $(cat seen)"
# On the console lines of ranks are as they are; the screen of the failure quotes them.
hidden failure "$AUTOLAUNCH" -c t.yaml logging.console=none --log-dir run -- /bin/sh -c 'echo hf_"SECRET123" hunter"2" >&2; exit 3'

# shown COMMAND...: it was asked for.
shown() {
    local output
    output=$("$@" 2>&1)
    grep -qF hf_SECRET123 <<<"$output" || failed "$* shows nothing: $output"
}
shown "$AUTOLAUNCH" plan --show-secrets -c t.yaml
shown "$AUTOLAUNCH" plan --json --show-secrets -c t.yaml
HF_TOKEN=hf_SECRET123 shown "$AUTOLAUNCH" validate --show-secrets bad.yaml
"$AUTOLAUNCH" -c t.yaml --show-secrets >run.out 2>&1
[ $? -eq 64 ] || failed "a run took --show-secrets: $(cat run.out)"
count_failures
