"""The store's protocol (docs/store-protocol.md) for tests, without PyTorch: as a module, or as a rank that meets the others."""
import os
import socket
import struct
import time

VALIDATE = struct.pack("<BI", 0, 0x3C85F7CE)


def text(value):
    return struct.pack("<Q", len(value)) + value


def set_request(key, value):
    return b"\x01" + text(key) + text(value)


def get_request(key):
    return b"\x03" + text(key)


class Store:
    def __init__(self, host, port):
        self.peer = socket.create_connection((host, int(port)), timeout=60)
        self.peer.sendall(VALIDATE)

    def _read(self, count):
        data = b""
        while len(data) < count:
            more = self.peer.recv(count - len(data))
            if not more:
                raise ConnectionError("the store has closed the connection")
            data += more
        return data

    def set(self, key, value):
        self.peer.sendall(set_request(key, value))

    def get(self, key):
        self.peer.sendall(get_request(key))
        return self._read(struct.unpack("<Q", self._read(8))[0])

    def add(self, key, amount):
        self.peer.sendall(b"\x04" + text(key) + struct.pack("<q", amount))
        return struct.unpack("<q", self._read(8))[0]


def job_store():
    return Store(os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])


def main():
    store, world = job_store(), int(os.environ["WORLD_SIZE"])
    come, deadline = store.add(b"/arrived", 1), time.monotonic() + 60
    while come < world:
        if time.monotonic() > deadline:
            raise SystemExit(f"{come} of {world} ranks came")
        time.sleep(0.02)
        come = store.add(b"/arrived", 0)
    print(f"rank {os.environ['RANK']} of {world} on node {os.environ['GROUP_RANK']}, {socket.gethostname()}: {come} met")


if __name__ == "__main__":
    main()
