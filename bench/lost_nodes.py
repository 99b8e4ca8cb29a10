#!/usr/bin/env python3
"""A job of many nodes loses one: how long until the others have met again, with autolaunch and with torchelastic.

    bench/lost_nodes.py BUILD_DIRECTORY [--nodes 256] [--runs 3] [--python PROGRAM]

autolaunch    bench_rendezvous --lost-nodes 1: agents' own code, each with a TLS connection; the kernel tells of the end. Then
              with --silence-ms: the agent stands still. The second in which ranks of the lost node end comes to both.
torchelastic  its DynamicRendezvousHandler with the c10d backend (torchrun --rdzv-backend=c10d --nnodes N-1:N), a process each,
              forked of one that has imported torch. The last is killed, and all others call next_rendezvous() at once, as
              their agents do once their workers have failed: how long workers take to notice is not in it. With
              torchrun's own last_call_timeout (30 s) and with 1 s, each with torchrun's keep-alive (5 s, 3 times).

PROGRAM is a Python with PyTorch. Prints a table, medians with lowest and highest.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys

SILENCE_MS = 4000
FENCE_MS = 1000


def torchelastic(nodes, last_call_seconds):
    """In a Python with PyTorch. Prints a line of JSON."""
    import gc
    import multiprocessing
    import time
    from datetime import timedelta
    import torch
    from torch.distributed import TCPStore
    from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
    from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler, RendezvousTimeout
    context = multiprocessing.get_context("fork")
    met, results = context.Semaphore(0), context.SimpleQueue()
    lost, over = os.pipe(), os.pipe()    # told by their ends; an Event would wait for who was killed while it waits
    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=600))

    def agent(index):
        for _, told in (lost, over):
            os.close(told)
        store = TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=600))
        timeout = RendezvousTimeout(join=timedelta(seconds=600), last_call=timedelta(seconds=last_call_seconds))
        # The first round has all nodes, so that it begins at once; the next one has one less.
        handler = DynamicRendezvousHandler.from_backend("bench", store, C10dRendezvousBackend(store, "bench"),
                                                        min_nodes=nodes - 1, max_nodes=nodes, timeout=timeout)
        world_of = lambda told: getattr(told, "world_size", None) or told[2]
        world = world_of(handler.next_rendezvous())
        assert world == nodes, world
        met.release()
        os.read(lost[0], 1)
        world = world_of(handler.next_rendezvous())
        results.put((time.monotonic(), world))
        os.read(over[0], 1)
        os._exit(0)

    gc.freeze()
    agents = []
    for index in range(nodes):
        agents.append(context.Process(target=agent, args=(index,), daemon=True))
        agents[-1].start()
    for _ in range(nodes):
        if not met.acquire(timeout=300):
            raise SystemExit("the first rendezvous did not come about in 300 s")
    os.kill(agents[-1].pid, signal.SIGKILL)
    began = time.monotonic()
    os.close(lost[1])
    ends = [results.get() for _ in range(nodes - 1)]
    os.close(over[1])
    print(json.dumps({"ms": 1e3 * (max(at for at, _ in ends) - began), "worlds": sorted({world for _, world in ends}),
                      "torch": torch.__version__}))
    sys.stdout.flush()
    for one in agents:
        one.kill()
    os._exit(0)


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=900)
    line = (done.stdout.strip().splitlines() or [""])[-1]
    if not line.startswith("{"):
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip() or 'no figures'}")
    return json.loads(line)


def spread(values):
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--nodes", type=int, default=256)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--torchelastic", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.torchelastic is not None:
        return torchelastic(given.nodes, given.torchelastic)
    ours = [os.path.join(given.build, "bench", "bench_rendezvous"), "--nodes", str(given.nodes), "--lost-nodes", "1"]
    told, silent, version = [], [], ""
    peers = {30.0: [], 1.0: []}
    for _ in range(given.runs):
        told.append(run(ours)["lost_nodes_ms"])
        silent.append(run([*ours, "--silence-ms", str(SILENCE_MS)])["lost_nodes_ms"])
        for last_call, times in peers.items():
            figures = run([given.python, __file__, given.build, "--nodes", str(given.nodes), "--torchelastic", str(last_call)])
            if figures["worlds"] != [given.nodes - 1]:
                raise SystemExit(f"torchelastic met in worlds of {figures['worlds']}")
            times.append(figures["ms"])
            version = figures["torch"]
    print("| lost of | until all others have the next generation, ms |\n|---|---|")
    print(f"| autolaunch, {given.nodes} nodes, the agent has ended | {spread([ms + FENCE_MS for ms in told])} |")
    print(f"| the same, it is silent, lost_after {SILENCE_MS / 1e3:g} s | {spread([ms + FENCE_MS for ms in silent])} |")
    for last_call, times in peers.items():
        print(f"| torchelastic {version}, last_call_timeout {last_call:g} s | {spread(times)} |")


if __name__ == "__main__":
    main()
