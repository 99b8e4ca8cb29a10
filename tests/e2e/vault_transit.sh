#!/bin/bash
# A secret key of age that Vault has wrapped: keygen makes it, ckpt and ranks have it unwrapped, plain age opens what it is for,
# and once Vault's key is deleted nothing opens. The key itself is in no file, output, argument or environment but the rank's.
. "$(dirname "$0")/lib.sh"
umask 022
tests=$AUTOLAUNCH_SOURCE_DIR/tests/e2e
unset "${!VAULT_@}"
export HOME=$work
sample=$AUTOLAUNCH_BINARY_DIR/tests/integration/checkpoint_sample
"$sample" 2 runs 1 0 2>sample.log || fail "no sample"
python3 "$tests/fake_vault.py" "$work/port" "$work/vault.requests" >fake.log 2>&1 &
vault_server=$!
trap 'kill $vault_server; cleanup' EXIT
eventually "the server's port" test -s port
export VAULT_ADDR=http://127.0.0.1:$(cat port)
(umask 077 && echo hvs.the-right-token >.vault-token)
"$AUTOLAUNCH" ckpt keygen --vault-transit transit/ckpt tried.key >out.log 2>&1
grep -Eq "neither encryption nor S3|libcrypto|libcurl|no Vault" out.log && { echo "skipped: $(cat out.log)"; exit 77; }

# ---- keygen ---------------------------------------------------------------------------------------------------------------
ckpt 0 keygen --vault-transit transit/ckpt run.key
recipient=$(head -n 1 out.log)
expect "a recipient" age1 "${recipient:0:4}"
expect "the public file" "$recipient" "$(cat run.key.pub)"
expect "modes of both" $'600\n644' "$(stat -c %a run.key run.key.pub)"
expect "the wrapped file" "autolaunch wrapped identity 1 transit/ckpt $recipient vault:v1:" "$(python3 -c '
import json
d = json.load(open("run.key"))
print(d["format"], d["vault_transit"], d["recipient"], d["ciphertext"][:9])')"
cp run.key kept
ckpt 73 keygen --vault-transit transit/ckpt run.key
cmp -s run.key kept || fail "a key file was replaced"
touch other.key.pub
ckpt 73 keygen --vault-transit transit/ckpt other.key
[ ! -e other.key ] || fail "a key whose public file could not be written"
ckpt 0 keygen --vault-transit transit/ckpt second.key --json
json 'd["command"] == "keygen" and d["recipient"].startswith("age1") and d["public_key"] == "second.key.pub" and d["vault_transit"] == "transit/ckpt"'
ckpt 64 keygen --vault-transit transit third.key
contains "the form" out.log "--vault-transit: expected MOUNT/KEY of Vault's transit engine"
ckpt 64 keygen --vault-transit transit/../sys third.key
ckpt 64 keygen --vault-transit transit/ckpt --signing third.key
ckpt 64 verify --vault-transit transit/ckpt runs
refused() { # CODE MOUNT/KEY TEXT
    ckpt "$1" keygen --vault-transit "$2" third.key
    contains "why" out.log "$3"
    grep -q secret-of-the-body out.log && fail "an answer is quoted"
    [ ! -e third.key ] && [ ! -e third.key.pub ] || fail "a key although Vault refused"
}
refused 66 transit/none "answers 400 for transit/encrypt/none: there is no such key"
refused 66 nothing/ckpt "answers 404 for nothing/encrypt/ckpt: there is no such key"
refused 77 transit/forbidden "answers 403 for transit/encrypt/forbidden"
refused 69 sealed/ckpt "answers 503 for sealed/encrypt/ckpt: it is sealed"
refused 69 odd/ckpt "answers 200 for odd/ckpt, and nothing wrapped is in it"
VAULT_TOKEN=hvs.wrong refused 77 transit/ckpt "answers 403"
VAULT_ADDR=http://vault.example refused 65 transit/ckpt "neither https nor this machine's own loopback"
VAULT_ADDR='' refused 65 transit/ckpt "nothing says where Vault is"

# ---- what is encrypted for it, opened ---------------------------------------------------------------------------------------
ckpt 0 reshard runs sealed --ranks 2 --recipient "$(cat run.key.pub)"
one=sealed/step-00000001
ckpt 0 verify sealed
contains "what was not looked at" out.log "encrypted, not opened"
ckpt 0 verify sealed --identity run.key --json
json 'd[0]["whole"] and d[0]["not_opened"] == 0'
ckpt 0 export sealed all.safetensors --all --identity run.key
ckpt 0 diff runs sealed --identity run.key
ckpt 0 reshard sealed open --ranks 1 --identity run.key --plain
ckpt 65 verify sealed --identity second.key
contains "another key" out.log "not encrypted for any of the 1 keys given"
# What Vault gives anybody who may ask it, with curl alone, opens the files with age alone.
unwrapped() {
    curl -sS -H 'X-Vault-Token: hvs.the-right-token' -d "{\"ciphertext\": \"$(sed -n 's/.*"ciphertext": "\(.*\)".*/\1/p' run.key)\"}" \
        "$VAULT_ADDR/v1/transit/decrypt/ckpt" | sed 's/.*"plaintext": "\([^"]*\)".*/\1/' | base64 -d 2>/dev/null
}
if command -v age >/dev/null && command -v curl >/dev/null; then
    for file in "$one"/*.age; do
        age -d -i <(unwrapped) "$file" >opened && [ -s opened ] || fail "age does not open $file"
    done
else
    echo "not tried: plain age, which is not installed"
fi

# ---- files that are none, or not to be trusted --------------------------------------------------------------------------------
identity_refused() { # CODE TEXT FILE [OPTION]
    ckpt "$1" export sealed never.safetensors --identity "$3"
    contains "why" out.log "$2"
    grep -q 'secret-of-the-body\|AGE-SECRET' out.log && fail "an answer is quoted"
    [ ! -e never.safetensors ] || fail "something was exported"
}
chmod 644 kept && identity_refused 65 "kept is open to others" kept && chmod 600 kept
changed() { (umask 077 && rm -f changed && sed "$1" run.key >changed); } # SED
changed 's/identity 1/identity 2/' && identity_refused 65 'is no wrapped identity, or one of another format' changed
changed 's/"vault:v1:/"v1:/' && identity_refused 65 "ciphertext is none of Vault's" changed
changed 's/"age1/"age2/' && identity_refused 65 "recipient is no public key of age" changed
changed 's,transit/ckpt,transit/../sys,' && identity_refused 65 "vault_transit is no MOUNT/KEY" changed
changed 's/}//' && identity_refused 65 "is no wrapped identity" changed
changed "s/age1[^\"]*/$(cat second.key.pub)/" && identity_refused 65 "is not the secret half of $(cat second.key.pub)" changed
changed 's,transit/ckpt,swapped/ckpt,' && identity_refused 65 'has wrapped there is no secret key of age' changed
changed 's,transit/ckpt,odd/ckpt,' && identity_refused 69 'answers 200 for odd/ckpt, and nothing unwrapped is in it' changed
changed 's,transit/ckpt,transit/forbidden,' && identity_refused 77 'answers 403 for transit/decrypt/forbidden' changed
changed 's/vault:v1:..../vault:v1:AAAA/' && identity_refused 65 'answers 400 for transit/decrypt/ckpt: the key does not take that' changed

# ---- ranks --------------------------------------------------------------------------------------------------------------------
spec() { # NAME LINE...
    printf '%s\n' 'trainer: {command: [/bin/sh, rank.sh]}' 'resource_management: {ranks_per_node: 2}' 'secrets:' "${@:2}" >"$1.yaml"
}
cat >rank.sh <<'END_OF_RANK'
[ "$RANK" = 0 ] || exit 0
printenv KEY >seen-variable
cat "$FILED_FILE" >seen-file
stat -c %a "$FILED_FILE" >seen-mode
stat -f -c %T "$FILED_FILE" >>seen-mode
cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' >seen-arguments
cat "/proc/$PPID/environ" >seen-agent
echo "it is $KEY"
END_OF_RANK
spec ranks '  KEY: {vault_transit: run.key, ranks: 0}' '  FILED: {vault_transit: ~/run.key, as: file}'
: >vault.requests
"$AUTOLAUNCH" -c ranks.yaml --log-dir ran >ranks.log 2>&1 </dev/null || fail "ranks: $(cat ranks.log)"
expect "requests for two secrets of two ranks" 2 "$(grep -c decrypt vault.requests)"
grep -q '^AGE-SECRET-KEY-1' seen-variable && cmp -s seen-variable seen-file || fail "a rank has no key"
expect "the file of a key" $'600\ntmpfs' "$(cat seen-mode)"
contains "the console" ranks.log "it is ***"
grep -l AGE-SECRET seen-arguments seen-agent && fail "the key is in an argument, or the agent's environment"
grep -rl AGE-SECRET ran ranks.log | grep -v 'rank-0/stdout' && fail "the key is in what autolaunch writes"
says 0 'vault_transit run.key' "$AUTOLAUNCH" plan -c ranks.yaml
spec ranks '  KEY: {vault_transit: run.key, file: run.key}'
says 65 'secrets.KEY: has vault_transit and file' "$AUTOLAUNCH" validate ranks.yaml
spec ranks '  KEY: {vault_transit: [run.key]}'
says 65 'secrets.KEY.vault_transit: expected a file that ckpt keygen --vault-transit has written' "$AUTOLAUNCH" validate ranks.yaml
rank_refused() { # CODE TEXT FILE
    rm -f seen-*
    spec ranks "  KEY: {vault_transit: $3}"
    says "$1" "$2" "$AUTOLAUNCH" -c ranks.yaml --log-dir "refused-$RANDOM"
    [ ! -e seen-variable ] || fail "a rank was started"
}
rank_refused 66 'secrets.KEY: nowhere cannot be read' nowhere
chmod 644 kept && rank_refused 77 'kept may be read by everybody' kept && chmod 600 kept
(umask 077 && cp run.key.pub open-half)
rank_refused 65 'secrets.KEY: open-half is no wrapped identity' open-half

# A C++ trainer goes on from what is encrypted, without a line of code for it.
gpt=$AUTOLAUNCH_BINARY_DIR/examples/gpt/gpt
job() { # MAX_STEPS LINES-BELOW-CHECKPOINT...
    cat <<END_OF_JOB
trainer: {command: [$gpt], config: {sample_bytes: 0}}
resource_management: {ranks_per_node: 2}
model: {layers: 1, heads: 1, width: 8, context: 8}
dataloader: {path: $work/text, global_batch: 2}
optimizer: {lr: 0.01, min_lr: 0.01}
step_scheduler: {max_steps: $1, warmup_steps: 0, log_every: 1, checkpoint_every: 2}
secrets: {CKPT_KEY: {vault_transit: run.key, as: file}, OTHER: {vault_transit: run.key}}
checkpoint: {enabled: true, checkpoint_dir: $work/trained, recipients: [$recipient], ${*:2}}
END_OF_JOB
}
job 2 'identity_secret: CKPT' >gpt.yaml
says 65 'gpt.yaml:8:' "$AUTOLAUNCH" validate gpt.yaml
says 65 'checkpoint.identity_secret: there is no secrets.CKPT' "$AUTOLAUNCH" validate gpt.yaml
job 2 'identity_secret: OTHER' >gpt.yaml
says 65 'add as: file to secrets.OTHER' "$AUTOLAUNCH" validate gpt.yaml
job 2 'identity_secret: CKPT_KEY, identity_file: run.key' >gpt.yaml
says 65 'identity_file names a key, too' "$AUTOLAUNCH" validate gpt.yaml
job 2 'identity_secret: CKPT_KEY' >gpt.yaml
says 0 'gpt.yaml: ' "$AUTOLAUNCH" validate gpt.yaml
if [ -x "$gpt" ]; then
    export OMP_NUM_THREADS=1
    for i in $(seq 60); do echo "line $((i % 7)): the quick brown fox jumps over the lazy dog"; done >text
    says 0 'done' "$AUTOLAUNCH" -c gpt.yaml --log-dir trained-1
    ckpt 0 verify trained --identity run.key --json
    json 'd[0]["whole"] and d[0]["not_opened"] == 0'
    job 4 'identity_secret: CKPT_KEY' >gpt.yaml
    says 0 'resumed from step 2' "$AUTOLAUNCH" -c gpt.yaml --log-dir trained-2
    # Two nodes, of which the head's alone reaches Vault, and asks once for each secret.
    job 6 'identity_secret: CKPT_KEY' | sed 's/ranks_per_node: 2/ranks_per_node: 1/' >gpt.yaml
    : >vault.requests
    nodes=()
    for node in 0 1; do
        reach=$VAULT_ADDR
        [ $node = 0 ] || reach=
        AUTOLAUNCH_JOB_KEY="a key for this test" VAULT_ADDR=$reach "$AUTOLAUNCH" --nnodes 2 --node-rank $node --rdzv-endpoint 127.0.0.1 \
            --rdzv-id "$E2E_MARK" -c gpt.yaml --log-dir trained-nodes >"node-$node.log" 2>&1 </dev/null &
        nodes+=($!)
    done
    for node in 0 1; do wait "${nodes[node]}" || fail "node $node: $(cat node-$node.log)"; done
    contains "two nodes" node-0.log "resumed from step 4"
    expect "requests for two secrets of two nodes" 2 "$(grep -c decrypt vault.requests)"
    ckpt 0 verify trained --identity run.key
    job 8 "identity_file: $work/run.key" >gpt.yaml
    says 1 'run.key has a key that Vault has wrapped' "$AUTOLAUNCH" -c gpt.yaml --log-dir trained-3
else
    echo "not tried: going on from encrypted checkpoints; examples/gpt is not built"
fi

# ---- erased by deleting one key -------------------------------------------------------------------------------------------------
python3 -c 'import sys, urllib.request as r; r.urlopen(r.Request(sys.argv[1], method="DELETE"), timeout=20).read()' \
    "$VAULT_ADDR/v1/transit/keys/ckpt" || fail "the key is not deleted"
for command in "verify sealed" "export sealed never.safetensors" "diff runs sealed" "reshard sealed never --ranks 1 --plain"; do
    ckpt 66 $command --identity run.key
    contains "$command: why" out.log "answers 400 for transit/decrypt/ckpt: there is no such key"
    contains "$command: what it means" out.log "what was wrapped with it is lost for ever"
    [ ! -e never ] && [ ! -e never.safetensors ] || fail "$command made something"
done
ckpt 0 verify sealed
rank_refused 66 'answers 400 for transit/decrypt/ckpt: there is no such key' run.key
if command -v age >/dev/null; then
    age -d -i <(unwrapped) "$(ls "$one"/*.age | head -n 1)" >opened 2>/dev/null && fail "age opens a file without the key"
fi

# ---- the key itself is nowhere: in no file but what the rank wrote, in no request that is a line of a log --------------------------
rm -rf seen-* ran/generation-*/rank-0
grep -rl 'AGE-SECRET-KEY-1' . && fail "the secret key is in a file"
grep -rlF --exclude=.vault-token --exclude=vault.requests hvs.the-right-token . && fail "a token is in a file"
nothing_left
count_failures
