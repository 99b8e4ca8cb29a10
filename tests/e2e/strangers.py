"""Strangers to a job, for strangers.sh.

    strangers.py rank FILE OVER      a rank: tells FILE where its stores are, and works until OVER exists
    strangers.py knock HOST:PORT...  every kind of stranger at these doors; prints "HOST:PORT closed" or "… refused", else fails
    strangers.py crowd HOST PORT UNTIL   200 that say nothing or half of something, until the file UNTIL exists
    strangers.py torch HOST PORT     PyTorch's own client; prints "refused", or that there is no PyTorch
"""
import os
import socket
import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from store_client import VALIDATE, get_request, job_store, set_request

SAYINGS = {
    "a store's client": VALIDATE + set_request(b"/word", b"theirs") + get_request(b"/word"),
    "PyTorch 1's client": set_request(b"/word", b"theirs") + get_request(b"/word"),
    "a web browser": b"GET / HTTP/1.1\r\nHost: node1\r\n\r\n",
    "a TLS client": bytes.fromhex("16030100050100000103") + bytes(64),
    "a node of another job": b"autolnch" + struct.pack("<HBBQH", 4, 1, 0, 7, 0) + bytes(64),
    "a babbler": bytes(range(256)) * 256,
}


def knock_as(who, host, port):
    """What came back, and how it ended. 60 s are for broken code: the control plane gives a handshake 10 s."""
    try:
        peer = socket.create_connection((host, port), timeout=60)
    except ConnectionRefusedError:
        return b"", "refused"
    answer = b""
    try:
        peer.sendall(SAYINGS[who])
        peer.shutdown(socket.SHUT_WR)  # so nobody waits for the rest
        while True:
            data = peer.recv(65536)
            if not data:
                return answer, "closed"
            answer += data
    except TimeoutError:
        raise SystemExit(f"{who} at {host}:{port} is neither served nor closed")
    except OSError:  # by a reset
        return answer, "closed"


def knock(*doors):
    pairs = [(door, who) for door in doors for who in SAYINGS]
    with ThreadPoolExecutor(len(pairs)) as all_at_once:
        outcomes = list(all_at_once.map(lambda pair: knock_as(pair[1], *pair[0].rsplit(":", 1)), pairs))
    for (door, who), (answer, end) in zip(pairs, outcomes):
        # Who begins as a node does hears the head's version, and no more.
        if answer and not (who == "a node of another job" and answer.startswith(b"autolnch") and len(answer) < 64):
            raise SystemExit(f"{who} at {door} got an answer: {answer!r}")
    for door in doors:
        print(door, *{end for (knocked, _), (_, end) in zip(pairs, outcomes) if knocked == door})


def crowd(host, port, until):
    beginnings = [b"", VALIDATE + set_request(b"/word", b"theirs")[:20], b"autolnch\x04"]
    peers = []
    for i in range(200):
        peers.append(socket.create_connection((host, port), timeout=60))
        try:
            peers[-1].sendall(beginnings[i % 3])
        except OSError:
            pass  # closed already
    print("here", flush=True)
    deadline = time.monotonic() + 90
    while not os.path.exists(until) and time.monotonic() < deadline:
        time.sleep(0.05)


def torch(host, port):
    from datetime import timedelta

    try:
        from torch.distributed import TCPStore
    except ImportError as error:
        print(f"not tried: PyTorch's client ({error})")
        return
    try:
        store = TCPStore(host, port, None, False, timeout=timedelta(seconds=10), wait_for_workers=False)
        store.set("word", "theirs")
        print("read", store.get("word"))
    except RuntimeError:
        print("refused")


def rank(path, over):
    store, number = job_store(), os.environ["RANK"]
    if number == "0":
        store.set(b"/word", b"ours")
    store.add(b"/come", 1)
    with open(path + ".new", "w") as file:
        print(os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], os.environ["AUTOLAUNCH_STORE"], file=file)
    os.rename(path + ".new", path)
    deadline, steps = time.monotonic() + 90, 0
    while not os.path.exists(over):
        if time.monotonic() > deadline:
            raise SystemExit("nobody ended the test")
        steps = store.add(b"/steps", 1)
        time.sleep(0.01)
    while store.add(b"/come", 0) < 2:
        time.sleep(0.01)
    word = job_store().get(b"/word")  # by a new connection
    if word != b"ours":
        raise SystemExit(f"the word became {word!r}")
    print(f"rank {number}: the word is ours after {'some' if steps else 'no'} steps")


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command in ("crowd", "torch"):
        arguments[1] = int(arguments[1])
    {"rank": rank, "knock": knock, "crowd": crowd, "torch": torch}[command](*arguments)
