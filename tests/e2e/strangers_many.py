"""Very many strangers to a job, for strangers_many.sh. What is said of the job's processes is read as root, before this becomes another user.

    strangers_many.py rank SECONDS          a rank: works with the job's store for so long
    strangers_many.py port PID              the port at which this process and those below it can be reached from elsewhere
    strangers_many.py record PORT FILE      plays a head at PORT, and writes to FILE what a node of the job sends it
    strangers_many.py crowd COUNT UID RECORD SECONDS REPORT PID...  COUNT connections to all that these and those below them listen at
"""
import errno
import json
import os
import random
import resource
import selectors
import socket
import struct
import sys
import time

from store_client import VALIDATE, get_request, job_store, set_request


def tree(roots):
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                children.setdefault(int(file.read().rsplit(")", 1)[1].split()[1]), []).append(int(name))
        except OSError:
            pass
    found = list(roots)
    for pid in found:
        found += children.get(pid, [])
    return found


def inodes_of(pids):
    inodes = {}
    for pid in pids:
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
                if target.startswith("socket:["):
                    inodes[target[8:-1]] = pid
        except OSError:
            pass
    return inodes


def listeners(roots):
    """(ports of the loopback, ports of all addresses, paths; an abstract name begins with a zero byte)"""
    inodes = inodes_of(tree(roots))
    loopback, everywhere, paths = set(), set(), set()
    for table in "/proc/net/tcp", "/proc/net/tcp6":
        with open(table) as file:
            for line in file.read().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    address, port = fields[1].split(":")
                    (loopback if address == "0100007F" else everywhere).add(int(port, 16))
    with open("/proc/net/unix", errors="surrogateescape") as file:
        for line in file.read().splitlines()[1:]:
            fields = line.split(None, 7)
            if len(fields) == 8 and fields[6] in inodes and int(fields[3], 16) & 0x10000:
                paths.add(fields[7].replace("@", "\0", 1) if fields[7].startswith("@") else fields[7])
    return loopback, everywhere, paths


def measure(roots):
    """Of the job's own processes: the most memory (KiB) and descriptors that one has."""
    memory = descriptors = 0
    for pid in tree(roots):
        try:
            with open(f"/proc/{pid}/comm") as file:
                if not file.read().startswith(("autolaunch", "job-guardian")):
                    continue
            with open(f"/proc/{pid}/status") as file:
                memory = max(memory, *(int(line.split()[1]) for line in file if line.startswith("VmRSS:")), 0)
            descriptors = max(descriptors, len(os.listdir(f"/proc/{pid}/fd")))
        except (OSError, TypeError):
            pass
    return memory, descriptors


class Stranger:
    """One connection: what it has still to say, how slowly, and what it has heard."""

    def __init__(self, door, saying, drop_by_drop, half_open):
        self.door, self.rest, self.slow, self.half_open = door, saying, drop_by_drop, half_open
        self.heard, self.over = b"", False
        family = socket.AF_INET if isinstance(door, int) else socket.AF_UNIX
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.code = self.socket.connect_ex(("127.0.0.1", door) if isinstance(door, int) else door)

    def speak(self):
        try:
            if self.rest:
                self.rest = self.rest[self.socket.send(self.rest[: 1 if self.slow else len(self.rest)]) :]
            elif self.half_open:
                self.half_open = False
                self.socket.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            self.close()

    def listen(self):
        try:
            data = self.socket.recv(4096)
            self.heard += data
            if not data:
                self.close()
        except BlockingIOError:
            pass
        except OSError:
            self.close()

    def close(self):
        self.over = True
        self.socket.close()


def sayings(record):
    chance = random.Random(26)
    node = record[:11]  # magic, version, a node
    return {
        "silence": b"",
        "a store's client": VALIDATE + set_request(b"/word", b"theirs") + get_request(b"/word"),
        "an endless key": VALIDATE + b"\x00" + struct.pack("<Q", 1 << 62) + bytes(4096),
        "random bytes": chance.randbytes(8192),
        "an endless header": b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 65536,
        "an oversized preamble": node + b"\0" + bytes(8) + b"\xff\xff" + bytes(65536),
        "a head": record[:10] + b"\x02" + record[11:19] + struct.pack("<H", 4096) + bytes(4096),
        "an oversized TLS record": record[:21] + b"\x16\x03\x03\xff\xff" + bytes(65535),
        "an endless line": b'{"type":"hello","rank":' + b"0" * 131072,
        "what was recorded": record,
        "PMI-1": b"cmd=initack pmiid=0\n" + b"cmd=init pmi_version=1 pmi_subversion=1\n",
    }


def crowd(count, uid, record_path, seconds, report, *pids):
    count, seconds, roots = int(count), float(seconds), [int(pid) for pid in pids]
    with open(record_path, "rb") as file:
        record = file.read()
    told = open(report, "w")
    loopback, everywhere, paths = listeners(roots)
    files = {path for path in paths if not path.startswith("\0")}
    doors = sorted(loopback) + sorted(everywhere) + sorted(paths - files)
    if not loopback or not everywhere or not files:
        raise SystemExit(f"not all that the job listens at was found: {loopback} {everywhere} {paths}")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if count > hard - 64:
        print(f"not tried: {count} connections, for at most {hard} descriptors are allowed: {hard - 64}")
        count = hard - 64
    # A child stays root, to look at the job meanwhile.
    most, over, said = [0, 0], os.pipe(), os.pipe()
    watcher = os.fork()
    if watcher == 0:
        os.close(over[1])
        os.set_blocking(over[0], False)
        while True:
            most = [max(pair) for pair in zip(most, measure(roots))]
            try:
                if os.read(over[0], 1) == b"":
                    break
            except BlockingIOError:
                time.sleep(0.1)
        os.write(said[1], json.dumps(most).encode())
        os._exit(0)
    os.close(over[0])
    if uid != "-":
        os.setgroups([]), os.setgid(int(uid)), os.setuid(int(uid))
        for path in files:
            try:
                socket.socket(socket.AF_UNIX).connect(path)
                raise SystemExit(f"another user connects to {path}")
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.ECONNREFUSED, errno.ENOENT):
                    raise
    kinds = list(sayings(record).items())
    selector, strangers = selectors.DefaultSelector(), []
    deadline, began, next_word = time.monotonic() + seconds, time.monotonic(), 0
    while time.monotonic() < deadline:
        for _ in range(min(200, count - len(strangers))):  # in waves, as many as a backlog has room for
            number = len(strangers)
            # Every second one at a door that all the network reaches.
            door = sorted(everywhere)[number // 2 % len(everywhere)] if number % 2 else doors[number // 2 % len(doors)]
            kind, saying = kinds[number // 2 % len(kinds)]
            stranger = Stranger(door, saying, number % 3 == 0, number % 5 == 0)
            stranger.kind = kind
            strangers.append(stranger)
            if stranger.code in (0, errno.EINPROGRESS):
                selector.register(stranger.socket, selectors.EVENT_READ, stranger)
            else:
                stranger.close()
        if time.monotonic() >= next_word:  # a byte a second from those who are slow
            next_word = time.monotonic() + 1
            for stranger in strangers:
                if not stranger.over:
                    stranger.speak()
                    if stranger.over:
                        selector.unregister(stranger.socket)
        else:
            for stranger in strangers[-200:]:
                if not stranger.over and not stranger.slow and stranger.rest:
                    stranger.speak()
        for key, _ in selector.select(0.05):
            selector.unregister(key.fileobj)
            key.data.listen()
            if not key.data.over:
                selector.register(key.fileobj, selectors.EVENT_READ, key.data)
    still = sum(not stranger.over for stranger in strangers)
    # Who begins as a node does hears the head's version, and TLS's hello or alert; nobody else hears anything.
    for stranger in strangers:
        if stranger.heard and not (stranger.heard.startswith(b"autolnch") and len(stranger.heard) < 4096):
            raise SystemExit(f"{stranger.kind} at {stranger.door!r} was answered: {stranger.heard[:100]!r}")
    for stranger in strangers:
        stranger.socket.close()
    os.close(over[1])
    memory, descriptors = json.loads(os.read(said[0], 100))
    os.waitpid(watcher, 0)
    with told:
        json.dump({"connections": len(strangers), "doors": len(doors), "still_open": still, "rss_kib": memory,
                   "descriptors": descriptors, "seconds": round(time.monotonic() - began, 1)}, told)


def rank(seconds):
    store, deadline, number = job_store(), time.monotonic() + float(seconds), os.environ["RANK"]
    store.set(b"/word" + number.encode(), b"ours")
    while time.monotonic() < deadline:
        store.add(b"/steps", 1)
        time.sleep(0.02)
    if job_store().get(b"/word" + number.encode()) != b"ours":  # by a new connection, beside the strangers'
        raise SystemExit("the word became another")
    store.add(b"/come", 1)
    while store.add(b"/come", 0) < 2:
        time.sleep(0.02)


def port(pid):
    print(*listeners([int(pid)])[1])


def record(at, path):
    door = socket.create_server(("127.0.0.1", int(at)))
    door.settimeout(20)
    while True:
        peer, _ = door.accept()
        peer.settimeout(2)
        said = b""
        try:
            while len(said) < 21:
                said += peer.recv(4096)
            # As the head: the same version and job, a key that was given.
            peer.sendall(said[:10] + b"\x02\x01" + said[12:20] + b"\0\0")
            said += peer.recv(65536)
        except OSError:
            pass
        if said.startswith(b"autolnch") and len(said) > 100:
            with open(path, "wb") as file:
                file.write(said)
            return


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    {"rank": rank, "port": port, "record": record, "crowd": crowd}[command](*arguments)
