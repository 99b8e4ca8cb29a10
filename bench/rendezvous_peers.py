#!/usr/bin/python3
"""One start of a job's nodes by somebody else's rendezvous, and a line of JSON about it.

    bench/rendezvous_peers.py static|dynamic|etcd NODES [--processes 2]

static   a TCPStore, and N clients that do what torchelastic's agents do after a static rendezvous
         (torch.distributed.elastic.utils.store): each sets its own data and gets everybody's; the barrier before the
         ranks start does the same once more.
dynamic  the same after torchelastic's own DynamicRendezvousHandler with the c10d backend (--rdzv-backend=c10d).
etcd     one etcd without fsync, and N clients over its HTTP API: each watches for the roster and puts its name; a
         coordinator watches the names and puts the roster; then a barrier in the same way.

Clients are connections of a few processes, as the agents of bench_rendezvous are. Time runs from the start of the
clients, with the server there, until the last client has the roster (join_ms) and has passed the barrier (start_ms).
Where clients of one process would wait for one another, the steps of all are done one step after another.
"""
import argparse
import asyncio
import base64
import json
import multiprocessing
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from datetime import timedelta

ROLE = b'{"role": "default", "rank": 12345, "local_world_size": 8}'


def raise_file_limit():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cpu_seconds(who=resource.RUSAGE_SELF):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


# ---- clients in processes: every one of them reports (joined, started, CPU seconds)

def run_clients(target, nodes, processes, *args):
    context = multiprocessing.get_context("fork")
    go, ready, results = context.Event(), context.Semaphore(0), context.SimpleQueue()

    def work(index):
        raise_file_limit()
        before = cpu_seconds()
        joined, started = target(range(index, nodes, processes), nodes, lambda: (ready.release(), go.wait()), *args)
        results.put((joined, started, cpu_seconds() - before))
        os._exit(0)    # threads of torchelastic would hold us up

    workers = [context.Process(target=work, args=(index,)) for index in range(processes)]
    for worker in workers:
        worker.start()
    for _ in workers:
        ready.acquire()
    begin = time.monotonic()
    go.set()
    ends = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    return {"join_ms": 1e3 * (max(end[0] for end in ends) - begin),
            "start_ms": 1e3 * (max(end[1] for end in ends) - begin),
            "agents_cpu_s": sum(end[2] for end in ends)}


# ---- torchelastic

def synchronize(stores, prefix, nodes):
    """torch.distributed.elastic.utils.store.synchronize, a step for all clients of this process, then the next."""
    for rank, store in stores:
        store.set(f"{prefix}{rank}", ROLE)
    for rank, store in stores:
        for other in range(nodes):
            store.get(f"{prefix}{other}")
        store.set(f"{prefix}{rank}.FIN", b"FIN")
    for rank, store in stores:
        if rank == 0:
            for other in range(nodes):
                store.get(f"{prefix}{other}.FIN")


def connect_store(port):
    from torch.distributed import TCPStore
    return TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=300))


def static_clients(ranks, nodes, wait_for_go, port):
    connect_store(port)    # what is done once a process is done
    wait_for_go()
    stores = [(rank, connect_store(port)) for rank in ranks]
    synchronize(stores, "torchelastic/role_info", nodes)
    joined = time.monotonic()
    synchronize(stores, "torchelastic/agent/run_start", nodes)
    return joined, time.monotonic()


def dynamic_clients(ranks, nodes, wait_for_go, port):
    from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
    from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler
    connect_store(port)
    stores = []
    lock = threading.Lock()

    def rendezvous():
        store = connect_store(port)
        handler = DynamicRendezvousHandler.from_backend("bench", store, C10dRendezvousBackend(store, "bench"),
                                                        min_nodes=nodes, max_nodes=nodes)
        shared, rank, _ = handler.next_rendezvous()
        with lock:
            stores.append((rank, shared, handler))

    wait_for_go()
    threads = [threading.Thread(target=rendezvous) for _ in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pairs = [(rank, store) for rank, store, _ in stores]
    synchronize(pairs, "torchelastic/role_info", nodes)
    joined = time.monotonic()
    synchronize(pairs, "torchelastic/agent/run_start", nodes)
    return joined, time.monotonic()


def torch_peer(target, nodes, processes):
    from torch.distributed import TCPStore
    import torch.distributed.elastic.rendezvous.dynamic_rendezvous    # before the fork: importing is not measured
    raise_file_limit()
    before = cpu_seconds()
    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=300))
    figures = run_clients(target, nodes, processes, server.port)
    figures["head_cpu_s"] = cpu_seconds() - before
    return figures


# ---- etcd

def encoded(text):
    return base64.b64encode(text.encode()).decode()


class Etcd:
    """One keep-alive connection to etcd's HTTP API."""

    async def open(self, port):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        return self

    def post(self, path, body):
        text = json.dumps(body)
        self.writer.write(f"POST {path} HTTP/1.1\r\nHost: etcd\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())

    async def answer(self):
        head = await self.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                await self.reader.readexactly(int(line.split(b":")[1]))

    async def put(self, key, value):
        self.post("/v3/kv/put", {"key": encoded(key), "value": encoded(value)})
        await self.answer()

    async def watch(self, key, end=None):
        request = {"key": encoded(key), "start_revision": 1}
        if end:
            request["range_end"] = encoded(end)
        self.post("/v3/watch", {"create_request": request})
        await self.reader.readuntil(b"\r\n\r\n")
        self.early = []
        self.early = await self.events()    # "created", and what was there already

    async def events(self):
        if self.early:
            early, self.early = self.early, []
            return early
        text = b""
        while not text.endswith(b"\n"):    # a line of JSON, in chunks
            size = int(await self.reader.readline(), 16)
            text += (await self.reader.readexactly(size + 2))[:-2]
        return [event for line in text.splitlines() for event in json.loads(line)["result"].get("events", [])]


def etcd_clients(ranks, nodes, wait_for_go, port):
    async def one(rank):
        watch = await Etcd().open(port)
        await watch.watch("go/", "go0")
        line = await Etcd().open(port)
        await line.put(f"join/{rank}", ROLE.decode())
        while not await watch.events():
            pass
        joined = time.monotonic()
        await line.put(f"fence/{rank}", "")
        while not await watch.events():
            pass
        return joined, time.monotonic()

    async def every():
        return await asyncio.gather(*(one(rank) for rank in ranks))

    wait_for_go()
    ends = asyncio.run(every())
    return max(end[0] for end in ends), max(end[1] for end in ends)


def coordinate(port, nodes, ready):
    async def run():
        line = await Etcd().open(port)
        for step in ("join", "fence"):
            watch = await Etcd().open(port)
            await watch.watch(f"{step}/", f"{step}0")
            ready.set()
            count = 0
            while count < nodes:
                count += len(await watch.events())
            await line.put(f"go/{step}", f"node[00001-{nodes:05}] 8(x{nodes})")
    asyncio.run(run())


def etcd_peer(nodes, processes):
    raise_file_limit()
    folder = tempfile.mkdtemp()
    port, peer_port = free_port(), free_port()
    server = subprocess.Popen(
        ["etcd", "--data-dir", folder, "--unsafe-no-fsync", "--log-level", "error",
         "--listen-client-urls", f"http://127.0.0.1:{port}", "--advertise-client-urls", f"http://127.0.0.1:{port}",
         "--listen-peer-urls", f"http://127.0.0.1:{peer_port}",
         "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer_port}",
         "--initial-cluster", f"default=http://127.0.0.1:{peer_port}"],
        stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        time.sleep(1)    # it elects itself
        context = multiprocessing.get_context("fork")
        ready = context.Event()
        coordinator = context.Process(target=coordinate, args=(port, nodes, ready), daemon=True)
        coordinator.start()
        ready.wait(10)
        before = process_cpu(server.pid)
        figures = run_clients(etcd_clients, nodes, processes, port)
        figures["head_cpu_s"] = process_cpu(server.pid) - before
        coordinator.join(10)
        return figures
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def process_cpu(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=["static", "dynamic", "etcd"])
    parser.add_argument("nodes", type=int)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    if options.peer == "etcd":
        if not shutil.which("etcd"):
            sys.exit("skipped: etcd is not installed")
        figures = etcd_peer(options.nodes, options.processes)
    else:
        try:
            import torch    # noqa: F401
        except ImportError:
            sys.exit("skipped: PyTorch is not installed for " + sys.executable)
        target = static_clients if options.peer == "static" else dynamic_clients
        figures = torch_peer(target, options.nodes, options.processes)
    print(json.dumps({"peer": options.peer, "nodes": options.nodes, **{k: round(v, 3) for k, v in figures.items()}}))


if __name__ == "__main__":
    main()
