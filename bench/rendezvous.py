#!/usr/bin/env python3
"""How long many nodes take to join, learn the roster and pass a barrier: autolaunch, torchelastic's TCPStore, etcd.

    bench/rendezvous.py BUILD_DIRECTORY [--nodes 64,256,1024,4096,16384] [--latency-us 0] [--runs 5] [--peers]
                        [--peer-seconds 60]

Runs alternate between the programs, so that a busy moment of the machine does not fall on one of them. Prints medians.
A peer is no longer tried at larger sizes once it needed more than --peer-seconds. Needs an open-files limit of the
largest number of nodes plus 128, and a quiet machine: everything runs on the same cores.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile

SLOW_MS = 5000
PEERS = ("static", "dynamic", "etcd")


def run(command, timeout_s):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:    # what a peer that is killed leaves goes with it
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True, env={**os.environ, "TMPDIR": folder})
        try:
            out, complaint = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            out, complaint = "", f"over {timeout_s} s"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)    # its children, too
            except ProcessLookupError:
                pass
            process.wait()
    line = out.strip().splitlines()[-1:] or [""]
    if not line[0].startswith("{"):
        return None, (complaint.strip().splitlines() or ["no figures"])[-1]
    return json.loads(line[0]), ""


def median(figures, key):
    return statistics.median(figure[key] for figure in figures)


def print_ours(nodes, figures):
    fence = statistics.median(ms for figure in figures for ms in figure["fence_ms"])
    print(f"| {nodes:,} | {nodes * 8:,} | {median(figures, 'join_ms'):,.0f} | {median(figures, 'start_ms'):,.0f} "
          f"| {1e3 * median(figures, 'start_ms') / nodes:.0f} | {fence:,.1f} | {median(figures, 'expand_ms'):.2f} "
          f"| {median(figures, 'head_cpu_s'):.2f} + {median(figures, 'agents_cpu_s'):.2f} "
          f"| {median(figures, 'join_bytes_in') / nodes:.0f} / {median(figures, 'join_bytes_out') / nodes:.0f} "
          f"| {median(figures, 'fence_bytes_in') / nodes:.0f} / {median(figures, 'fence_bytes_out') / nodes:.0f} "
          f"| {median(figures, 'head_kib_per_node'):.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--nodes", default="64,256,1024,4096,16384")
    parser.add_argument("--latency-us", default="0")
    parser.add_argument("--simulators", default="2")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--peer-seconds", type=int, default=60)
    options = parser.parse_args()
    python = os.environ.get("PYTHON_WITH_TORCH", "/usr/bin/python3")
    peers_script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rendezvous_peers.py")
    ours = [f"{options.build}/bench/bench_rendezvous", "--latency-us", options.latency_us,
            "--simulators", options.simulators]
    alive = list(PEERS) if options.peers else []
    beside = []
    print("| nodes | ranks | join ms | + fence ms | us a node | fence alone ms | roster ms | CPU s head + agents "
          "| join bytes in / out | fence bytes in / out | KiB a node |\n|---|---|---|---|---|---|---|---|---|---|---|")
    for nodes in (int(word) for word in options.nodes.split(",")):
        figures, peer_figures = [], {peer: [] for peer in alive}
        for _ in range(options.runs):
            figure, why = run(ours + ["--nodes", str(nodes)], 300)
            if figure is None:
                sys.exit(f"bench_rendezvous with {nodes} nodes: {why}")
            figures.append(figure)
            for peer in list(alive):
                if peer_figures[peer] and peer_figures[peer][-1]["start_ms"] > SLOW_MS:
                    continue    # one such run tells enough
                figure, why = run([python, peers_script, peer, str(nodes)], options.peer_seconds)
                if figure is None:
                    beside.append(f"{peer} at {nodes:,} nodes: {why}")
                    alive.remove(peer)
                else:
                    peer_figures[peer].append(figure)
        print_ours(nodes, figures)
        for peer, found in peer_figures.items():
            if found:
                ratio = median(found, "start_ms") / median(figures, "start_ms")
                beside.append(f"{peer} at {nodes:,} nodes: {median(found, 'start_ms'):,.0f} ms, {ratio:,.1f} times ours; "
                              f"server {median(found, 'head_cpu_s'):.2f} s of CPU")
    print("\n" + "\n".join(beside))


if __name__ == "__main__":
    main()
