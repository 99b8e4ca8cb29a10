#!/usr/bin/env python3
"""Wall time from exec to exit of N x /bin/true: autolaunch, the posix_spawn floor, mpirun, torchrun.

    bench/launch.py BUILD_DIRECTORY [--runs 9] [--ranks 1,2,8,32] [--peers]

Every program runs once before it is timed. Runs alternate between the programs, so that a busy moment of the machine
does not fall on one of them. Each run of autolaunch writes a run directory of its own, and all are removed at the end:
for some seconds after files were removed ext4 takes up to twenty times as long to create one, as it passes over inodes
that were freed just now. So let the disk rest for a minute before, too; TMPDIR=/dev/shm leaves the disk out. Prints medians in ms and ratios to the
floor. A run that takes over 30 s is killed and counted as hung (mpirun 4.1.4 hangs at times when 32 local processes exit
at once).
"""
import argparse
import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TIMEOUT_S = 30
RUN_DIRECTORY = "@RUN_DIRECTORY@"    # in a command: a fresh folder for each run


def commands(build, ranks, peers):
    found = {
        "posix_spawn": [f"{build}/bench/launch_floor", str(ranks), "/bin/true"],
        "autolaunch": [f"{build}/launcher/autolaunch", "-q", "--nproc-per-node", str(ranks), "--log-dir",
                       RUN_DIRECTORY, "/bin/true"],
    }
    if peers and shutil.which("mpirun"):
        found["mpirun"] = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), "/bin/true"]
    if peers and shutil.which("torchrun"):
        found["torchrun"] = ["torchrun", "--no_python", "--nproc_per_node", str(ranks), "--monitor_interval=0.1",
                             "/bin/true"]
    return found


def run_once(command, scratch):
    """Milliseconds, or None when it failed or hung."""
    command = [tempfile.mkdtemp(prefix="run-", dir=scratch) if word == RUN_DIRECTORY else word for word in command]
    begin = time.perf_counter()
    with subprocess.Popen(command, cwd=scratch, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          stdin=subprocess.DEVNULL) as child:
        # Popen.wait(timeout) polls with growing pauses and would be timed instead; a pidfd wakes at once.
        pidfd = os.pidfd_open(child.pid)
        ended, _, _ = select.select([pidfd], [], [], TIMEOUT_S)
        elapsed_ms = (time.perf_counter() - begin) * 1000
        os.close(pidfd)
        if not ended:
            child.kill()
            return None
    return elapsed_ms if child.returncode == 0 else None


def measure(build, ranks, runs, peers, scratch):
    todo = commands(build, ranks, peers)
    for command in todo.values():
        run_once(command, scratch)
    times = {name: [] for name in todo}
    for _ in range(runs):
        for name, command in todo.items():
            times[name].append(run_once(command, scratch))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--ranks", default="1,2,8,32")
    parser.add_argument("--peers", action="store_true", help="mpirun and torchrun, where they are installed")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    with tempfile.TemporaryDirectory(prefix="autolaunch-bench-") as scratch:    # removed once, at the end
        compare(build, arguments, scratch)


def compare(build, arguments, scratch):
    print(f"{'ranks':>5}  {'program':<12} {'median ms':>9}  {'min ms':>7}  {'x floor':>7}  failed or hung")
    for ranks in map(int, arguments.ranks.split(",")):
        times = measure(build, ranks, arguments.runs, arguments.peers, scratch)
        good = {name: [t for t in values if t is not None] for name, values in times.items()}
        if not good["posix_spawn"]:
            sys.exit("the floor itself failed")
        floor = statistics.median(good["posix_spawn"])
        for name, values in good.items():
            bad = len(times[name]) - len(values)
            if not values:
                print(f"{ranks:>5}  {name:<12} {'-':>9}  {'-':>7}  {'-':>7}  {bad}")
                continue
            median = statistics.median(values)
            print(f"{ranks:>5}  {name:<12} {median:>9.1f}  {min(values):>7.1f}  {median / floor:>7.2f}  {bad}")


if __name__ == "__main__":
    main()
