#!/usr/bin/env python3
"""Stands for a cluster's exporters, on loopback: exporters.py PORT FOLDER

  http://127.0.0.HOST:PORT/NAME    what FOLDER/NAME says; 503 where FOLDER/NAME.HOST.down is there
  POST /                           what a receiver of Alertmanager's gets, a line of FOLDER/received each

In FOLDER/NAME, a value +N has grown by N a second since the start, and now-N is a time N seconds ago.
"""
import http.server, os, sys, time

port, folder = int(sys.argv[1]), sys.argv[2]
start = time.time()


def value(text):
    now = time.time()
    if text.startswith("+"):
        return repr(float(text[1:]) * (now - start))
    if text.startswith("now-"):
        return repr(now - float(text[4:]))
    return text


class Exporters(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name, host = self.path.strip("/"), self.connection.getsockname()[0].rsplit(".", 1)[1]
        file = os.path.join(folder, name)
        if os.path.exists(f"{file}.{host}.down") or not os.path.isfile(file):
            return self.send_error(503)
        lines = [line.rsplit(" ", 1) for line in open(file).read().splitlines() if line]
        text = "".join(f"{series} {value(number)}\n" for series, number in lines).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open(os.path.join(folder, "received"), "ab") as file:
            file.write(f"{self.path} {self.headers.get('Authorization', '-')} ".encode() + body.replace(b"\n", b" ") + b"\n")
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("", port), Exporters).serve_forever()
