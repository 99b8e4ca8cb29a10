#!/usr/bin/env python3
"""Wall time from exec to the printed plan: `autolaunch plan`, beside `lstopo --of console` of the same input.

    bench/plan.py BUILD_DIRECTORY [--runs 31] [--capture FILE.xml ...]

For this machine, for a machine of 24 NUMA nodes (lstopo makes it up, and saves it), and for each capture that is named.
Runs alternate, so that a busy moment of the machine does not fall on one of them; each program runs once before it is
timed. Prints medians and the fastest runs in ms.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TWENTY_FOUR_NODES = "pack:4 node:6 l3:1 core:4 pu:2"


def run_once(command):
    begin = time.perf_counter()
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=60)
    elapsed_ms = (time.perf_counter() - begin) * 1000
    if result.returncode != 0 or not result.stdout:
        sys.exit(f"{' '.join(command)}: exit code {result.returncode}: {result.stderr.decode()}")
    return elapsed_ms


def compare(title, commands, runs):
    times = {name: [] for name in commands}
    for command in commands.values():
        run_once(command)
    for _ in range(runs):
        for name, command in commands.items():
            times[name].append(run_once(command))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, values in times.items():
        print(f"{title:<28} {name:<12} median {medians[name]:7.2f} ms   fastest {min(values):7.2f} ms")
    print(f"{title:<28} {'ratio':<12} {medians['autolaunch'] / medians['lstopo']:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--runs", type=int, default=31)
    parser.add_argument("--capture", action="append", default=[])
    arguments = parser.parse_args()
    if not shutil.which("lstopo"):
        sys.exit("skipped: no lstopo to compare with")
    program = f"{arguments.build}/launcher/autolaunch"
    with tempfile.TemporaryDirectory() as folder:
        made_up = os.path.join(folder, "24-nodes.xml")
        subprocess.run(["lstopo", "--input", TWENTY_FOUR_NODES, "--of", "xml", made_up], check=True)
        compare("this machine", {"autolaunch": [program, "plan", "/bin/true"], "lstopo": ["lstopo", "--of", "console"]},
                arguments.runs)
        for capture in [made_up, *arguments.capture]:
            compare(os.path.basename(capture),
                    {"autolaunch": [program, "plan", "--topology", capture, "--nproc-per-node", "24"],
                     "lstopo": ["lstopo", "--input", capture, "--of", "console"]}, arguments.runs)


if __name__ == "__main__":
    main()
