"""Who is told: an HTTP server for Slack's webhooks and Alertmanager's posts, and a mail server. Each message is a line of JSON in
OUT; the ports are in PORTS, as shell variables. `busy` in a path answers 503 twice, first.

    alert_sinks.py OUT PORTS
"""

import asyncore
import http.server
import json
import os
import sys
import threading
import warnings

warnings.simplefilter("ignore")
import smtpd  # Python 3.11's own

out, ports = sys.argv[1:]
lock = threading.Lock()
busy = {}


def keep(**message):
    with lock, open(out, "a") as file:
        file.write(json.dumps(message) + "\n")


class Web(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        busy[self.path] = busy.get(self.path, 0) + 1
        if "busy" in self.path and busy[self.path] <= 2:
            self.send_response(503)
            self.send_header("Retry-After", "0")
        else:
            keep(kind="http", path=self.path, type=self.headers["Content-Type"], token=self.headers["Authorization"], body=json.loads(body))
            self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Mail(smtpd.SMTPServer):
    def process_message(self, peer, mailfrom, rcpttos, data, **_):
        keep(kind="mail", sender=mailfrom, to=rcpttos, text=data.decode())


web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
mail = Mail(("127.0.0.1", 0), None)
with open(ports + ".new", "w") as file:
    file.write(f"http_port={web.server_address[1]} smtp_port={mail.socket.getsockname()[1]}\n")
os.rename(ports + ".new", ports)
threading.Thread(target=web.serve_forever, daemon=True).start()
asyncore.loop(timeout=0.2)
