"""An OpenID issuer of a test's own, with the device flow alone: issuer.py FOLDER. Prints its address.

FOLDER has key.pem and jwk.json. FOLDER/how says how it behaves: each word of it changes one answer.
"""
import base64
import http.server
import json
import os
import subprocess
import sys
import time
import urllib.parse

folder = sys.argv[1]
polls = 0


def how(word):
    with open(os.path.join(folder, "how")) as file:
        return word in file.read().split()


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token():
    now = int(time.time())
    header = {"alg": "none" if how("none") else "RS256", "typ": "JWT", "kid": "evil" if how("kid") else "one"}
    claims = {"iss": "https://evil.example" if how("issuer") else server.address, "sub": "ann",
              "aud": "vault" if how("audience") else "autolaunch", "iat": now - (9000 if how("over") else 0),
              "exp": now - 3600 if how("over") else now + 300}
    text = b64(json.dumps(header).encode()) + "." + b64(json.dumps(claims).encode())
    signed = subprocess.run(["openssl", "dgst", "-sha256", "-sign", os.path.join(folder, "key.pem")], input=text.encode(),
                            stdout=subprocess.PIPE, check=True).stdout
    return text + "." + ("" if how("none") else b64(signed))


class Issuer(http.server.BaseHTTPRequestHandler):
    def answer(self, status, body):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/keys":
            with open(os.path.join(folder, "jwk.json")) as file:
                return self.answer(200, {"keys": [json.load(file)]})
        here = "http://login.example.org" if how("clear") else server.address
        self.answer(200, {"issuer": server.address + ("/" if how("slash") else ""), "jwks_uri": server.address + "/keys",
                          "device_authorization_endpoint": here + "/device", "token_endpoint": server.address + "/token"})

    def do_POST(self):
        global polls
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        if form["client_id"] != ["autolaunch"]:
            return self.answer(401, {"error": "invalid_client"})
        if self.path == "/device":
            assert form["scope"] == ["openid"], form
            polls = 0
            return self.answer(200, {"device_code": "the-device-code", "interval": 1, "expires_in": 2 if how("late") else 60,
                                     "user_code": "WDJB\x1b[2J" if how("escape") else "WDJB-MJHT",
                                     "verification_uri": server.address + "/go"})
        assert form["device_code"] == ["the-device-code"], form
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:device_code"], form
        polls += 1
        if how("denied"):
            return self.answer(400, {"error": "access_denied"})
        if polls < 2 or how("late"):
            return self.answer(400, {"error": "authorization_pending"})
        if how("twice"):
            return self.answer(200, b'{"id_token": "a", "id_token": "' + token().encode() + b'"}')
        self.answer(200, {"id_token": token(), "access_token": "not-for-us", "token_type": "Bearer"})

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
server.address = "http://127.0.0.1:%d" % server.server_port
print(server.address, flush=True)
server.serve_forever()
