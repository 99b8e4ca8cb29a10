"""Makes keys.json and tokens.tsv: identity tokens, good and hostile, with the words of the refusal of each.

    python3 tests/data/oidc/make_tokens.py          python3-cryptography signs; the private keys are made anew and not kept
"""
import base64
import hashlib
import hmac
import json
import os

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

HERE = os.path.dirname(os.path.abspath(__file__))
NOW = 1795866582
ISSUER, CLIENT, NONCE = "https://login.example.org/realms/hpc", "autolaunch", "n-0S6_WzA2Mj"


def b64(data):
    return base64.urlsafe_b64encode(data if isinstance(data, bytes) else data.encode()).rstrip(b"=").decode()


def number(value):
    return b64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def rsa_jwk(key, **more):
    public = key.public_key().public_numbers()
    return {"kty": "RSA", "n": number(public.n), "e": number(public.e), **more}


def ec_jwk(key, **more):
    public = key.public_key().public_numbers()
    return {"kty": "EC", "crv": "P-256", "x": b64(public.x.to_bytes(32, "big")), "y": b64(public.y.to_bytes(32, "big")), **more}


mine = rsa.generate_private_key(65537, 2048)
pss_only = rsa.generate_private_key(65537, 2048)
curve = ec.generate_private_key(ec.SECP256R1())
attacker = rsa.generate_private_key(65537, 2048)
attacker_curve = ec.generate_private_key(ec.SECP256R1())
small = rsa.generate_private_key(65537, 1024)
keys = {"keys": [
    rsa_jwk(mine, kid="rsa-1", use="sig"),
    rsa_jwk(pss_only, kid="pss-1", use="sig", alg="PS256"),
    ec_jwk(curve, kid="ec-1", use="sig", key_ops=["verify"]),
    rsa_jwk(attacker, kid="for-encryption", use="enc"),
    rsa_jwk(small, kid="small", use="sig"),
    {"kty": "oct", "kid": "shared", "k": b64(b"a secret that is in a public document")},
    {"kty": "OKP", "crv": "Ed25519", "kid": "ed-1", "x": b64(bytes(32))},
]}
HASHES = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}


def sign(algorithm, key, text, salt=None):
    digest = HASHES[algorithm[2:]]
    if algorithm.startswith("RS"):
        return key.sign(text, padding.PKCS1v15(), digest)
    if algorithm.startswith("PS"):
        return key.sign(text, padding.PSS(padding.MGF1(digest), digest.digest_size if salt is None else salt), digest)
    r, s = utils.decode_dss_signature(key.sign(text, ec.ECDSA(digest)))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def claims(**changed):
    said = {"iss": ISSUER, "sub": "ann", "aud": CLIENT, "iat": NOW - 60, "exp": NOW + 300, "nonce": NONCE}
    said.update(changed)
    return json.dumps({name: value for name, value in said.items() if value is not None})


def token(algorithm="RS256", key=mine, kid="rsa-1", said=None, header=None, raw_header=None, salt=None):
    head = {"alg": algorithm, "typ": "JWT", **({"kid": kid} if kid is not None else {}), **(header or {})}
    text = b64(raw_header or json.dumps(head)) + "." + b64(claims() if said is None else said)
    return text + "." + b64(sign(algorithm, key, text.encode(), salt))


def unsigned(name, signature=""):
    return b64(json.dumps({"alg": name, "typ": "JWT", "kid": "rsa-1"})) + "." + b64(claims()) + "." + signature


def mac(secret, kid="rsa-1"):
    text = b64(json.dumps({"alg": "HS256", "typ": "JWT", "kid": kid})) + "." + b64(claims())
    return text + "." + b64(hmac.new(secret, text.encode(), hashlib.sha256).digest())


def public_bytes(key, encoding):
    return key.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)


good = token()
head, said, signature = good.split(".")
KEY, ALGORITHM, SIGNATURE, SHAPE = "no key of that id", "its algorithm is none of", "not of that key", "is not base64url"
JSON = "is no JSON object, has a name twice"
last = signature[-1]
alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
der = curve.sign((b64('{"alg":"ES256","kid":"ec-1"}') + "." + b64(claims())).encode(), ec.ECDSA(hashes.SHA256()))
es_text = b64('{"alg":"ES256","kid":"ec-1"}') + "." + b64(claims())
cases = [
    ("RS256", "ok", good),
    ("RS384", "ok", token("RS384")),
    ("RS512", "ok", token("RS512")),
    ("PS256", "ok", token("PS256", pss_only, "pss-1")),
    ("PS256 with a key for all algorithms", "ok", token("PS256")),
    ("PS384", "ok", token("PS384")),
    ("PS512", "ok", token("PS512")),
    ("ES256", "ok", token("ES256", curve, "ec-1")),
    ("ES256 without kid: there is one such key", "ok", token("ES256", curve, None)),
    ("several audiences, issued to us", "ok", token(said=claims(aud=["other", CLIENT], azp=CLIENT))),
    ("over for less than clocks may differ", "ok", token(said=claims(exp=NOW - 30))),
    ("from the future by less than that", "ok", token(said=claims(iat=NOW + 30, nbf=NOW + 30))),
    ("a time with a fraction", "ok", token(said=claims(exp=NOW + 300.5))),
    ("without an end, as some write it: the year 9999", "ok", token(said=claims(exp=253402300799))),
    ("jku that is not looked at", "ok", token(header={"jku": "https://evil.example/keys", "x5u": "https://evil.example/c"})),
    ("alg none", ALGORITHM, unsigned("none")),
    ("alg None", ALGORITHM, unsigned("None")),
    ("alg nOnE", ALGORITHM, unsigned("nOnE", signature)),
    ("alg missing", ALGORITHM, b64('{"kid":"rsa-1"}') + "." + said + "." + signature),
    ("alg a number", "alg is no text", b64('{"alg":5,"kid":"rsa-1"}') + "." + said + "." + signature),
    ("alg rs256", ALGORITHM, unsigned("rs256", signature)),
    ("alg EdDSA", ALGORITHM, unsigned("EdDSA", signature)),
    ("HS256 with the public key in PEM", ALGORITHM, mac(public_bytes(mine, serialization.Encoding.PEM))),
    ("HS256 with the public key in DER", ALGORITHM, mac(public_bytes(mine, serialization.Encoding.DER))),
    ("HS256 with the modulus", ALGORITHM, mac(keys["keys"][0]["n"].encode())),
    ("HS256 with the symmetric key of the set", ALGORITHM, mac(b"a secret that is in a public document", "shared")),
    ("HS256 with nothing", ALGORITHM, mac(b"")),
    ("signed by another", SIGNATURE, token(key=attacker)),
    ("a key of its own in jwk", SIGNATURE, token(key=attacker, header={"jwk": rsa_jwk(attacker)})),
    ("a key of its own in jwk, without kid", SIGNATURE, token(key=attacker, kid=None, header={"jwk": rsa_jwk(attacker)})),
    ("no kid, and two keys that may be meant", "several of that kind", token("PS256", kid=None)),
    ("a key of its own by jku", KEY, token(key=attacker, kid="evil", header={"jku": "https://evil.example/keys"})),
    ("a key of its own by x5u", SIGNATURE, token(key=attacker, header={"x5u": "https://evil.example/cert"})),
    ("a key of its own in x5c", SIGNATURE, token(key=attacker, header={"x5c": [b64(b"a certificate")]})),
    ("kid as a path", KEY, token(key=attacker, kid="../../../../dev/null")),
    ("kid as SQL", KEY, token(key=attacker, kid="x' UNION SELECT 'key")),
    ("kid as a command", KEY, token(key=attacker, kid="|/bin/sh")),
    ("kid empty", KEY, token(kid="")),
    ("kid a list", "kid is no text", token(header={"kid": ["rsa-1"]})),
    ("kid of a key that encrypts", KEY, token(key=attacker, kid="for-encryption")),
    ("kid of a key that is too small", KEY, token(key=small, kid="small")),
    ("kid of a key of another kind", KEY, token(key=attacker, kid="ec-1")),
    ("RS256 with a key for PS256", KEY, token(key=pss_only, kid="pss-1")),
    ("ES256 by another", SIGNATURE, token("ES256", attacker_curve, "ec-1")),
    ("ES256 of zeros", SIGNATURE, es_text + "." + b64(bytes(64))),
    ("ES256 of the order", SIGNATURE, es_text + "." + b64(bytes.fromhex("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551") * 2)),
    ("ES256 in DER", SIGNATURE, es_text + "." + b64(der)),
    ("PS256 with another salt", SIGNATURE, token("PS256", salt=0)),
    ("PS256 that is RS256", SIGNATURE, b64(json.dumps({"alg": "PS256", "kid": "rsa-1"})) + "." + said + "." + signature),
    ("changed claims", SIGNATURE, head + "." + b64(claims(sub="root")) + "." + signature),
    ("changed header", SIGNATURE, b64(json.dumps({"alg": "RS256", "kid": "rsa-1"})) + "." + said + "." + signature),
    ("another issuer", "of another issuer", token(said=claims(iss="https://evil.example"))),
    ("the issuer with a slash", "of another issuer", token(said=claims(iss=ISSUER + "/"))),
    ("the issuer in capitals", "of another issuer", token(said=claims(iss=ISSUER.upper()))),
    ("no issuer", "of another issuer", token(said=claims(iss=None))),
    ("the issuer in a list", "iss is no text", token(said=claims(iss=[ISSUER]))),
    ("another audience", "for somebody else", token(said=claims(aud="vault"))),
    ("our name as a part of the audience", "for somebody else", token(said=claims(aud="autolaunch-admin"))),
    ("an audience without us", "for somebody else", token(said=claims(aud=["vault", "grafana"]))),
    ("no audience", "for whom it is", token(said=claims(aud=None))),
    ("an empty audience", "for somebody else", token(said=claims(aud=[]))),
    ("an audience that is a number", "neither text nor a list", token(said=claims(aud=7))),
    ("an audience with a mapping", "aud has what is no text", token(said=claims(aud=[{"a": 1}, CLIENT]))),
    ("several audiences, and nobody named", "issued to somebody else", token(said=claims(aud=[CLIENT, "evil"]))),
    ("issued to another", "issued to somebody else", token(said=claims(azp="evil"))),
    ("over", "it is over", token(said=claims(exp=NOW - 61))),
    ("over for years", "it is over", token(said=claims(iat=1, exp=2))),
    ("not yet valid", "does not hold yet", token(said=claims(nbf=NOW + 61))),
    ("issued in the future", "issued in the future", token(said=claims(iat=NOW + 61))),
    ("it ends before it begins", "ends before", token(said=claims(iat=NOW + 50, exp=NOW + 20))),
    ("no end", "does not say when", token(said=claims(exp=None))),
    ("no beginning", "does not say when", token(said=claims(iat=None))),
    ("an end that is text", "exp is no time", token(said=claims(exp=str(NOW + 300)))),
    ("an end beyond all", "exp is no time", token(said=claims(exp=10**18))),
    ("an end that no number holds", JSON, token(said=claims().replace(str(NOW + 300), "1e999"))),
    ("a negative end", "exp is no time", token(said=claims(exp=-1))),
    ("another nonce", "its nonce is not", token(said=claims(nonce="another"))),
    ("no nonce", "its nonce is not", token(said=claims(nonce=None))),
    ("nobody", "whose it is", token(said=claims(sub=None))),
    ("a subject without end", "whose it is", token(said=claims(sub="a" * 256))),
    ("the issuer twice", JSON, token(said='{"iss":"https://evil.example",' + claims()[1:])),
    ("exp twice, escaped", JSON, token(said='{"\\u0065xp":%d,' % (NOW + 9) + claims()[1:])),
    ("alg twice", JSON, token(raw_header='{"alg":"none","alg":"RS256","kid":"rsa-1"}')),
    ("kid twice", JSON, token(raw_header='{"alg":"RS256","kid":"evil","kid":"rsa-1"}')),
    ("nested deeply", JSON, token(said='{"a":' + "[" * 5000 + "]" * 5000 + "}")),
    ("claims that are a list", JSON, token(said="[1]")),
    ("claims with a byte that is no UTF-8", JSON, token(said=claims().encode().replace(b"ann", b"a\xffn"))),
    ("claims and more", JSON, token(said=claims() + "{}")),
    ("no claims", JSON, token(said="")),
    ("critical extensions", "crit", token(header={"crit": ["exp"]})),
    ("an unencoded payload", "not signed as", token(header={"b64": False})),
    ("a token in a token", "holds another token", token(header={"cty": "JWT"})),
    ("an access token", "its typ is not JWT", token(header={"typ": "at+jwt"})),
    ("a logout token", "its typ is not JWT", token(header={"typ": "logout+jwt"})),
    ("encrypted", "it is encrypted", ".".join([head, "a", "b", "c", "d"])),
    ("two parts", "three parts", head + "." + said),
    ("four parts", "three parts", good + ".x"),
    ("no part", "three parts", "x"),
    ("dots alone", JSON, ".."),
    ("cut in its signature", SIGNATURE, good[:-2]),
    ("without signature", SIGNATURE, head + "." + said + "."),
    ("cut in its claims", SIGNATURE, head + "." + said[:-4] + "." + signature),
    ("a space in it", SHAPE, head + "." + said + "." + signature[:10] + " " + signature[11:]),
    ("padding", SHAPE, good + "=="),
    ("base64 of the other alphabet", SHAPE, head + "." + said + "." + "+/" + signature[2:]),
    ("another text of the same signature", SHAPE, good[:-1] + alphabet[alphabet.index(last) ^ 1]),
    ("a quote", SHAPE, '"' + good + '"'),
    ("a huge header", "header has more than 8 KiB", token(header={"x": "a" * 9000})),
]
with open(os.path.join(HERE, "keys.json"), "w") as file:
    json.dump(keys, file, indent=1)
    file.write("\n")
with open(os.path.join(HERE, "tokens.tsv"), "w") as file:
    for case in cases:
        assert not any("\t" in part or "\n" in part for part in case), case
        file.write("\t".join(case) + "\n")
print(len(cases), "tokens")
