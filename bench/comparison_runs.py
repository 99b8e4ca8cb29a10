"""Who takes part in bench/compare_collectives, and how a run of each is started and read.

A contestant's run gives {size in bytes: microseconds of a call}, where size is nccl-tests': the whole message, of all ranks
where each has a part.
"""
import os
import re
import shutil
import subprocess
import tempfile

RUN_TIMEOUT_S = 300
YARDSTICK = "MPI's own"

# nccl-tests' factors over size / time (bench/perf_collectives.cpp), and the bytes that all ranks together must touch for a
# byte of size when they share memory: reading and writing each byte of a result once, and every input of a reduction.
COLLECTIVES = {
    #                   busbw                             touched                   OSU                   Intel MPI Benchmarks
    "all_reduce":     (lambda n: 2 * (n - 1) / n,        lambda n: 2 * n,          "osu_allreduce",      "Allreduce"),
    "reduce_scatter": (lambda n: (n - 1) / n,            lambda n: 2 * n,          "osu_reduce_scatter", "Reduce_scatter"),
    "all_gather":     (lambda n: (n - 1) / n,            lambda n: 2 * n,          "osu_allgather",      "Allgather"),
    "broadcast":      (lambda n: 1,                      lambda n: 2 * (n - 1),    "osu_bcast",          "Bcast"),
    "reduce":         (lambda n: 1,                      lambda n: n + 1,          "osu_reduce",         "Reduce"),
    "alltoall":       (lambda n: (n - 1) / n,            lambda n: 2 * n,          "osu_alltoall",       "Alltoall"),
    "gather":         (lambda n: (n - 1) / n,            lambda n: 2,              "osu_gather",         "Gather"),
    "scatter":        (lambda n: (n - 1) / n,            lambda n: 2,              "osu_scatter",        "Scatter"),
    "sendrecv":       (lambda n: 1,                      lambda n: 2 * n,          None,                 "Sendrecv"),
    "hypercube":      (lambda n: (n - 1) / n,            lambda n: 2 * n,          None,                 None),
}
# There OSU and Intel count one rank's part.
COUNTED_BY_PART = {"all_gather", "alltoall", "gather", "scatter"}


def bytes_of(text):
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    return int(text[:-1] if factor > 1 else text) * factor


def parse_table(output):
    """nccl-tests' table: out-of-place times. None when an element was wrong or the table is not whole."""
    times = {}
    for line in output.splitlines():
        words = line.split()
        if len(words) >= 13 and words[0].isdigit():
            if words[8] not in ("0", "N/A"):
                return None
            times[int(words[0])] = float(words[5])
    return times if times and "# Avg bus bandwidth" in output else None


def parse_osu(output, factor):
    rows = re.findall(r"^(\d+)\s+([0-9.]+)", output, re.MULTILINE)
    return {int(size) * factor: float(time) for size, time in rows} or None


def parse_imb(output, factor):
    """#bytes #repetitions t_min t_max t_avg: the average, which is also what the other tables show."""
    rows = re.findall(r"^\s*(\d+)\s+\d+\s+[0-9.]+\s+[0-9.]+\s+([0-9.]+)", output, re.MULTILINE)
    return {int(size) * factor: float(time) for size, time in rows if int(size) > 0} or None


class Contestant:
    def __init__(self, name, command, parse):
        self.name = name
        self.command = command    # of (smallest, largest, iterations, warm-up): an argv
        self.parse = parse

    def run(self, sizes, environment):
        try:
            done = subprocess.run(self.command(*sizes), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace", stdin=subprocess.DEVNULL, env=environment, timeout=RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return None, f"took over {RUN_TIMEOUT_S} s"
        times = self.parse(done.stdout) if done.returncode == 0 else None
        return times, "" if times else f"exit status {done.returncode}: {done.stdout.strip()[-300:]}"


def environment_for_ranks():
    """Probing for fabrics takes most of MPI_Init; on one node there is none to find."""
    environment = dict(os.environ)
    environment.setdefault("OMPI_MCA_pml", "ob1")
    environment.setdefault("OMPI_MCA_btl", "self,vader")
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return environment


def launch_prefix(build, ranks, launcher, scratch):
    if launcher == "autolaunch":
        return [f"{build}/launcher/autolaunch", "-q", "--no-prefix", "--numa-binding", "exclusive", "-n", str(ranks),
                "--log-dir", tempfile.mkdtemp(prefix="run-", dir=scratch)]
    bind = ["--bind-to", "core"] if ranks <= os.cpu_count() else ["--oversubscribe", "--bind-to", "none"]
    return ["mpirun", *bind, "-np", str(ranks)]


def contestants(collective, build, arguments, scratch):
    """Those that can run, and [(name, why not)] of those that cannot. Ours come first."""
    _, _, osu, imb = COLLECTIVES[collective]
    ranks, launcher, step = arguments.ranks, arguments.launcher, arguments.stepfactor
    mpirun = shutil.which("mpirun")

    def program(by, *words):
        def command(low, high, iterations, warm_up):
            return [*launch_prefix(build, ranks, by, scratch), *words, "-b", str(low), "-e", str(high), "-f", str(step),
                    "-n", str(iterations), "-w", str(warm_up)]
        return command

    ours, mpi_peer = f"{build}/bench/{collective}_perf", f"{build}/bench/mpi_peer_perf"
    found = [Contestant("shm, allocate()d", program(launcher, ours, "--backend", "shm", "-R", "1"), parse_table),
             Contestant("shm", program(launcher, ours, "--backend", "shm"), parse_table)]
    missing = []
    if os.path.exists(mpi_peer) and mpirun:
        found.append(Contestant("mpi", program("mpirun", ours, "--backend", "mpi"), parse_table))
        found.append(Contestant(YARDSTICK, program("mpirun", mpi_peer, collective), parse_table))
    else:
        missing.append((f"mpi and {YARDSTICK}", "there is no mpirun, or this build has no MPI"))
    factor = ranks if collective in COUNTED_BY_PART else 1
    by_mpirun = launch_prefix(build, ranks, "mpirun", scratch)
    if osu and mpirun and shutil.which(osu):
        found.append(osu_contestant(by_mpirun, osu, factor))
    else:
        missing.append(("OSU", f"{osu} is not in PATH" if osu else "it has no such benchmark"))
    if imb and mpirun and shutil.which("IMB-MPI1"):
        found.append(imb_contestant([*by_mpirun, "IMB-MPI1", "-npmin", str(ranks)], imb, factor, step, scratch))
    else:
        missing.append(("Intel MPI Benchmarks", "IMB-MPI1 is not in PATH" if imb else "they have no such benchmark"))
    return found, missing


def osu_contestant(by_mpirun, program, factor):
    def command(low, high, iterations, warm_up):
        return [*by_mpirun, program, "-m", f"{max(1, low // factor)}:{high // factor}", "-i", str(iterations), "-x",
                str(warm_up)]
    return Contestant("OSU", command, lambda output: parse_osu(output, factor))


def imb_contestant(start, benchmark, factor, step, scratch):
    def command(low, high, iterations, _warm_up):
        lengths = os.path.join(scratch, f"imb-{low}-{high}")
        with open(lengths, "w", encoding="ascii") as file:
            size = low
            while size <= high:
                file.write(f"{max(1, size // factor)}\n")
                size *= step
        return [*start, "-iter", str(iterations), "-iter_policy", "off", "-msglen", lengths, benchmark]
    return Contestant("IMB", command, lambda output: parse_imb(output, factor))


def memcpy_touched(build, ranks, size):
    """GB/s that `ranks` threads touch when each copies `size` bytes; None when that cannot be measured."""
    done = subprocess.run([f"{build}/bench/memcpy_limit", str(ranks), str(size), "3"], stdout=subprocess.PIPE, text=True,
                          check=False)
    found = re.match(r"([0-9.]+) GB/s", done.stdout)
    return float(found.group(1)) if found else None
