"""A web server of files for tests, on 127.0.0.1 alone, whose first word of the path says how it behaves.

    http_files.py FOLDER PORT_FILE LOG

LOG gets a line for each answer: "METHOD PATH STATUS BYTES". Behaviours, each as /WORD/NAME of a file in FOLDER:
plain (ranges, ETag), weak (a weak ETag), dated (Last-Modified alone), whole (no ranges), bare (no version at all),
chunked (no length), lead (redirects to /signed, each time by another signature that is good for 6 answers), loop, away (to ftp://),
cut (each third answer breaks off in its middle), busy (503 every other time), silent (headers, and then nothing),
denied (403), lies (another range than was asked for), changing (after 6 answers another version).
"""
import email.utils
import http.server
import os
import socketserver
import sys
import threading
import time

folder, port_file, log = sys.argv[1:4]
lock = threading.Lock()
counts = {}
signatures = {}


def count(key):
    with lock:
        counts[key] = counts.get(key, 0) + 1
        return counts[key]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def note(self, status, sent):
        with lock, open(log, "a") as file:
            file.write(f"{self.command} {self.path} {status} {sent}\n")

    def say(self, status, headers=(), body=b""):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.note(status, len(body))

    def do_GET(self):
        path, _, query = self.path.partition("?")
        _, how, name = path.split("/", 2)
        if how == "denied":
            return self.say(403)
        if how == "loop":
            return self.say(302, [("Location", self.path)])
        if how == "away":
            return self.say(302, [("Location", "ftp://127.0.0.1/" + name)])
        if how == "lead":
            signature = f"sig{count('signature')}"
            signatures[signature] = 6
            return self.say(302, [("Location", f"/signed/{name}?sig={signature}")])
        if how == "signed":
            with lock:
                left = signatures.get(query.removeprefix("sig="), 0)
                signatures[query.removeprefix("sig=")] = left - 1
            if left <= 0:
                return self.say(403)
        if how == "busy" and count(how) % 2:
            return self.say(503)
        self.file(how, name)

    do_HEAD = do_GET

    def file(self, how, name):
        place = os.path.join(folder, name)
        if not os.path.isfile(place):
            return self.say(404)
        with open(place, "rb") as file:
            content = file.read()
        version = "second" if how == "changing" and count(how) > 6 else "first"
        first, last, status = 0, len(content) - 1, 200
        wanted = self.headers.get("Range", "")
        if how not in ("whole", "bare", "chunked") and wanted.startswith("bytes="):
            begin, _, end = wanted[6:].partition("-")
            first, last, status = int(begin), min(int(end), last), 206
            if how == "lies":
                first, last = first + 1, min(last + 1, len(content) - 1)
            if first >= len(content):
                return self.say(416, [("Content-Range", f"bytes */{len(content)}")])
        etag = f'"{version}-{len(content)}"'
        if how not in ("dated", "whole", "bare") and self.headers.get("If-Match", etag) != etag:
            return self.say(412)
        self.send_response(status)
        if how not in ("dated", "whole", "bare"):
            self.send_header("ETag", "W/" + etag if how == "weak" else etag)
        if how != "bare":
            self.send_header("Last-Modified", email.utils.formatdate(os.stat(place).st_mtime, usegmt=True))
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        body = content[first : last + 1]
        if how == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return self.note(status, 0)
        if how == "chunked":
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
            return self.note(status, len(body))
        if how == "silent" and len(body) > 1:
            self.wfile.flush()
            time.sleep(600)
        if how == "cut" and len(body) > 1 and count(how) % 3 == 1:
            body = body[: len(body) // 2]
            self.close_connection = True
        try:
            self.wfile.write(body)
        except OSError:  # that much was not wanted
            self.close_connection = True
            body = b""
        self.note(status, len(body))


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64


server = Server(("127.0.0.1", 0), Handler)
with open(port_file + ".new", "w") as file:
    file.write(str(server.server_address[1]))
os.rename(port_file + ".new", port_file)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()  # it ends with who started it
server.serve_forever()
