"""Vault's HTTP API as far as autolaunch asks it, and what may go wrong with it. fake_vault.py PORT_FILE LOG

Listens on a free port of the loopback, which it writes to PORT_FILE; LOG gets a line a request. The first part of a path
says what the server does: kv (KV 2), old (KV 1), hidden (KV 1, and mounts are not told), sealed, lost, moved, slow, huge,
odd, busy (answers at the third time). transit is a transit engine with the keys ckpt, which can be deleted, and forbidden,
which nobody may use; swapped is one that unwraps to another text than what it wrapped. What it wraps it keeps by a number.
"""
import base64
import http.server
import json
import os
import secrets
import sys
import time

TOKEN = os.environ.get("FAKE_VAULT_TOKEN", "hvs.the-right-token")
SECRETS = {"team/api": {"key": os.environ.get("FAKE_VAULT_VALUE", "canary-vault-value"), "number": 7, "empty": "", "text": "two\nlines of it"}}

TRANSIT_KEYS = {"ckpt", "forbidden"}
WRAPPED = {}


class Vault(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    busy = 0

    def answer(self, status, tree=None, headers=(), body=None):
        body = body if body is not None else json.dumps(tree or {"errors": ["secret-of-the-body"]}).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def log_message(self, *_):
        with open(sys.argv[2], "a") as log:
            log.write(f"{self.command} {self.path} token={self.headers.get('X-Vault-Token')} "
                      f"namespace={self.headers.get('X-Vault-Namespace')}\n")

    def do_POST(self):
        given = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if self.path == "/v1/auth/token/revoke-self":
            return self.answer(204, body=b"")
        if "/encrypt/" in self.path or "/decrypt/" in self.path:
            return self.transit(given)
        right = {"/v1/auth/approle/login": {"role_id": "trainers", "secret_id": "the-secret-id"},
                 "/v1/auth/cluster/login": {"role": "trainers", "jwt": "a.b.c"}}
        if right.get(self.path) == given:
            return self.answer(200, {"auth": {"client_token": TOKEN}})
        return self.answer(400)

    def transit(self, given):
        mount, to_do, key = self.path[len("/v1/"):].split("/")
        if mount == "sealed":
            return self.answer(503)
        if mount == "odd":
            return self.answer(200, body=b"<html>a proxy's page with secret-of-the-body</html>")
        if mount not in ("transit", "swapped"):
            return self.answer(404)
        if self.headers.get("X-Vault-Token") != TOKEN or key == "forbidden":
            return self.answer(403)
        if key not in TRANSIT_KEYS:
            return self.answer(400, {"errors": ["encryption key not found", "secret-of-the-body"]})
        if to_do == "encrypt":
            number = secrets.token_bytes(40)
            WRAPPED["vault:v1:" + base64.b64encode(number).decode()] = (key, given["plaintext"])
            return self.answer(200, {"data": {"ciphertext": list(WRAPPED)[-1], "key_version": 1}})
        found = WRAPPED.get(given["ciphertext"])
        if found is None or found[0] != key:
            return self.answer(400, {"errors": ["invalid ciphertext", "secret-of-the-body"]})
        other = base64.b64encode(b"AGE-SECRET-OF-NOBODY").decode()
        return self.answer(200, {"data": {"plaintext": other if mount == "swapped" else found[1]}})

    def do_DELETE(self):
        TRANSIT_KEYS.discard(self.path.rsplit("/", 1)[1])
        self.answer(204, body=b"")

    def do_GET(self):
        mounts = "/v1/sys/internal/ui/mounts/"
        path = self.path[len(mounts):] if self.path.startswith(mounts) else self.path[len("/v1/"):]
        mount, rest = path.split("/", 1)
        if mount == "sealed":
            return self.answer(503)
        if mount == "lost":
            return self.answer(404)
        if mount == "moved":
            return self.answer(307, headers=[("Location", f"http://elsewhere.example:8200{self.path}?token=never")])
        if mount == "slow":
            self.log_message()
            time.sleep(60)
        if mount == "huge":
            return self.answer(200, body=b"x" * (17 << 20))
        if mount == "odd":
            return self.answer(200, body=b"<html>a proxy's page with secret-of-the-body</html>")
        if mount == "busy" and Vault.busy < 2:
            Vault.busy += 1
            return self.answer(429)
        if self.headers.get("X-Vault-Token") != TOKEN:
            return self.answer(403)
        if self.path.startswith(mounts):
            if mount == "hidden":
                return self.answer(403)
            version = None if mount == "old" else {"version": "2"}
            return self.answer(200, {"data": {"path": f"{mount}/", "options": version}})
        if mount in ("old", "hidden"):
            found = SECRETS.get(rest)
            return self.answer(200, {"data": found}) if found else self.answer(404)
        found = SECRETS.get(rest[len("data/"):]) if rest.startswith("data/") else None
        return self.answer(200, {"data": {"data": found, "metadata": {}}}) if found else self.answer(404)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):  # a client that was killed
        pass


server = Server(("127.0.0.1", 0), Vault)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(server.server_address[1]))
os.rename(sys.argv[1] + ".new", sys.argv[1])
server.serve_forever()
