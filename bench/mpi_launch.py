#!/usr/bin/env python3
"""MPI programs under autolaunch and under mpirun, side by side: what a launch costs, and whether messages are as fast.

    bench/mpi_launch.py BUILD_DIRECTORY [--runs 9] [--ranks 2,8] [--sizes 8,4K,64K,1M,16M]

Launch: wall time from exec to exit of N ranks that call MPI_Init, MPI_Barrier and MPI_Finalize, under autolaunch, under
mpirun, and under mpirun with the transports that autolaunch chooses on a machine without a fabric. Messages: two ranks of
mpi_peer_perf, which calls MPI_Allreduce and nothing of ours. Runs alternate between the programs, so that a busy moment of
the machine does not fall on one of them; every program runs once before it is timed. mpirun binds two ranks to a core each,
so autolaunch is asked to do so, too (--numa-binding exclusive). A run that takes over 60 s is killed and counted as failed.
Each launch writes a run directory; TMPDIR=/dev/shm leaves the disk out.
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

TIMEOUT_S = 60
TRANSPORTS = ["--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp"]


def launchers(build, ranks, scratch):
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)]

    def autolaunch():
        run_directory = tempfile.mkdtemp(prefix="run-", dir=scratch)
        return [f"{build}/launcher/autolaunch", "-q", "--mpi", "pmix", "--numa-binding", "exclusive",
                "--nproc-per-node", str(ranks), "--log-dir", run_directory]
    return {"autolaunch": autolaunch, "mpirun": lambda: mpirun, "mpirun ob1": lambda: mpirun + TRANSPORTS}


def run(command, ranks, scratch):
    """Milliseconds and output, or None when it failed or hung."""
    environment = dict(os.environ, MPI_EXPECT_SIZE=str(ranks))
    with tempfile.TemporaryFile(dir=scratch) as output:
        begin = time.perf_counter()
        with subprocess.Popen(command, cwd=scratch, stdout=output, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                              env=environment) as child:
            pidfd = os.pidfd_open(child.pid)    # Popen.wait(timeout) polls with growing pauses
            ended, _, _ = select.select([pidfd], [], [], TIMEOUT_S)
            elapsed_ms = (time.perf_counter() - begin) * 1000
            os.close(pidfd)
            if not ended:
                child.kill()
        if child.returncode != 0:
            return None
        output.seek(0)
        return elapsed_ms, output.read().decode(errors="replace")


def alternate(build, program, ranks, runs, scratch):
    todo = launchers(build, ranks, scratch)
    for command in todo.values():
        run(command() + program, ranks, scratch)
    results = {name: [] for name in todo}
    for _ in range(runs):
        for name, command in todo.items():
            results[name].append(run(command() + program, ranks, scratch))
    return results


def compare_launches(build, arguments, scratch):
    print(f"{'ranks':>5}  {'launcher':<12} {'median ms':>9}  {'min ms':>7}  {'x mpirun':>8}  failed")
    for ranks in map(int, arguments.ranks.split(",")):
        results = alternate(build, [f"{build}/bench/mpi_init"], ranks, arguments.runs, scratch)
        times = {name: [result[0] for result in values if result] for name, values in results.items()}
        for name, values in times.items():
            failed = arguments.runs - len(values)
            if not values or not times["mpirun"]:
                print(f"{ranks:>5}  {name:<12} {'-':>9}  {'-':>7}  {'-':>8}  {failed}")
                continue
            median = statistics.median(values)
            ratio = median / statistics.median(times["mpirun"])
            print(f"{ranks:>5}  {name:<12} {median:>9.0f}  {min(values):>7.0f}  {ratio:>8.2f}  {failed}")


def bytes_of(text):
    factor = {"K": 1 << 10, "M": 1 << 20}.get(text[-1], 1)
    return int(text[:-1] if factor > 1 else text) * factor


def out_of_place_us(output):
    """The table's line: size, count, type, operation, root, time, …, perhaps after "[host rank] "."""
    for line in output.splitlines():
        words = line.split("] ", 1)[-1].split()
        if len(words) > 6 and words[0].isdigit() and words[2] == "float":
            return float(words[5])
    return None


def compare_messages(build, arguments, scratch):
    print(f"\n{'bytes':>9}  {'launcher':<12} {'median us':>9}  {'min us':>9}  {'x mpirun':>8}  failed")
    for size in arguments.sizes.split(","):
        program = [f"{build}/bench/mpi_peer_perf", "all_reduce", "-b", size, "-e", size, "-c", "0", "-n", "200"]
        results = alternate(build, program, 2, arguments.runs, scratch)
        times = {name: [t for t in (out_of_place_us(result[1]) for result in values if result) if t is not None]
                 for name, values in results.items()}
        for name, values in times.items():
            failed = arguments.runs - len(values)
            if not values or not times["mpirun"]:
                print(f"{bytes_of(size):>9}  {name:<12} {'-':>9}  {'-':>9}  {'-':>8}  {failed}")
                continue
            median = statistics.median(values)
            ratio = median / statistics.median(times["mpirun"])
            print(f"{bytes_of(size):>9}  {name:<12} {median:>9.2f}  {min(values):>9.2f}  {ratio:>8.2f}  {failed}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--ranks", default="2,8")
    parser.add_argument("--sizes", default="8,4K,64K,1M,16M", help="empty: no messages")
    arguments = parser.parse_args()
    if not shutil.which("mpirun"):
        sys.exit("there is no mpirun to compare with")
    build = os.path.abspath(arguments.build)
    with tempfile.TemporaryDirectory(prefix="autolaunch-bench-") as scratch:    # removed once, at the end
        compare_launches(build, arguments, scratch)
        if arguments.sizes:
            compare_messages(build, arguments, scratch)


if __name__ == "__main__":
    main()
