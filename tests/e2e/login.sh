# autolaunch login, at an issuer of this test's own: the code is shown, the token verified and written for its owner alone; an issuer
# that lies, and a token that is not for us, leave no file.
. "$(dirname "$0")/lib.sh"
command -v openssl >/dev/null && command -v python3 >/dev/null || skip "needs openssl and python3, for an issuer"
(
    umask 077
    mkdir issuer
    openssl genrsa -out issuer/key.pem 2048 2>/dev/null
    openssl rsa -in issuer/key.pem -noout -modulus | python3 -c '
import base64, json, sys
modulus = bytes.fromhex(sys.stdin.read().strip().split("=")[1])
print(json.dumps({"kty": "RSA", "kid": "one", "use": "sig", "e": "AQAB", "n": base64.urlsafe_b64encode(modulus).rstrip(b"=").decode()}))' \
        >issuer/jwk.json
) || fail "no key"
: >issuer/how
python3 "$(dirname "$(readlink -f "$0")")/issuer.py" issuer >address 2>issuer.log &
server=$!
trap 'kill "$server" 2>/dev/null; cleanup' EXIT
eventually "the issuer" test -s address
address=$(cat address)
login() { "$AUTOLAUNCH" login --issuer "$address" --client-id autolaunch token.jwt; }

login >out.log 2>&1 || {
    grep -Eq "libcurl|libcrypto|S3 needs" out.log && skip "$(cat out.log)"
    fail "login"
}
contains "the address" out.log "open $address/go in a browser, and confirm the code WDJB-MJHT (60 s)"
contains "whose it is" out.log "token.jwt: the token of ann, for "
expect "its mode" 600 "$(stat -c %a token.jwt)"
expect "its parts" 3 "$(tr . '\n' <token.jwt | grep -c .)"
grep -qF "$(cut -c1-40 token.jwt)" out.log && fail "the token is on the screen"
rm token.jwt

says() { # CODE TEXT
    local code=$1 text=$2 got=0
    login >says.log 2>&1 || got=$?
    [ "$got" -eq "$code" ] && grep -qF -- "$text" says.log || failed "expected $code with \"$text\", got $got: $(cat says.log)"
    grep -q 'eyJ' says.log && failed "a token is on the screen: $(cat says.log)"
    grep -q $'\x1b' says.log && failed "an escape sequence is on the screen"
}
# refused CODE TEXT HOW: and no file, no token on the screen
refused() {
    echo "$3" >issuer/how
    says "$1" "$2"
    [ ! -e token.jwt ] || failed "$3: a file was written"
    rm -f token.jwt
}
refused 65 "of another issuer" slash
refused 65 "device_authorization_endpoint: http sends in the clear, and login.example.org is not this machine" clear
refused 65 "user_code cannot be shown" escape
refused 65 "the login was refused at the issuer" denied
refused 69 "nobody confirmed the code in 2 s" late
refused 65 "its algorithm is none of" none
refused 65 "no key of that id" kid
refused 65 "it is of another issuer" issuer
refused 65 "for somebody else" audience
refused 65 "it is over" over
refused 65 "has a name twice" twice
address=http://login.example.org
refused 65 "--issuer http://login.example.org: http sends in the clear" ""
address=http://127.0.0.1:9
refused 69 "" ""
count_failures
