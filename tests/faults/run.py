#!/usr/bin/env python3
"""Runs the corpus of faults, and compares what the first screen names, cause and rank, with what happened.

  tests/faults/run.py --autolaunch build/release/launcher/autolaunch            a table
  tests/faults/run.py --autolaunch … --write                                    the same into docs/causes.md
  tests/faults/run.py --autolaunch … --only '^cpp' --at-least 95                a part; fails below 95 %

Each fault is a program, or a line that a library has printed, recorded from it, raised as Python's exception."""
import argparse
import concurrent.futures
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "causes.md"
BEGIN, END = "<!-- made by tests/faults/run.py --write -->", "<!-- end -->"
SECONDS = 120  # for a fault; most take less than one

CPP = {
    "exit3": "program_error", "exit255": "program_error", "return_after_words": "program_error", "throw": "program_error",
    "throw_int": "program_error", "throw_in_thread": "program_error", "bad_alloc": "out_of_memory", "abort": "crash",
    "assert": "crash", "segv": "crash", "bus": "crash", "ill": "crash", "fpe": "crash", "stack": "crash",
    "double_free": "crash", "sigkill": "killed", "sigterm": "killed", "sigusr1": "killed", "xcpu": "killed",
    "full_disk": "storage", "file_limit": "storage", "descriptors": "program_error", "fork_limit": "program_error",
    "much_output": "program_error", "no_newline": "program_error", "escapes": "program_error", "daemon": "program_error",
    "ignores_term": "program_error",
}
PYTHON = {
    "raise": "program_error", "nested": "program_error", "saved_in_vain": "storage", "exit7": "program_error",
    "exit_text": "program_error", "import": "program_error", "syntax": "program_error", "recursion": "program_error",
    "memory": "out_of_memory", "abort": "crash", "segfault": "crash", "error_file": "program_error",
    "library": "cannot_start", "read_error": "storage", "resolve": "network", "refused": "network",
    "descriptors": "program_error", "child_fails": "program_error", "survived": "program_error", "peer_killed": "killed",
    "slow_end": "program_error", "left_early": "program_error", "all": "program_error",
}
LINES = {
    "cuda_oom": "out_of_memory", "cuda_ecc": "gpu", "cuda_nvlink": "gpu", "cuda_assert": "program_error",
    "cuda_illegal": "program_error", "nccl_watchdog": "collective_timeout", "nccl_ib": "network", "nccl_oom": "out_of_memory",
    "gloo_timeout": "collective_timeout", "stale": "storage", "quota": "storage", "read_only": "storage",
    "torch_zip": "storage", "jax_oom": "out_of_memory", "no_route": "network",
}
TORCH = {
    "corrupt": "storage", "allocate": "out_of_memory", "killed": "killed", "raises": "program_error",
    "skips": "collective_timeout", "leaves": "program_error",
}
MPI = {"abort": "mpi_abort", "crash": "crash", "leaves": "program_error", "late_code": "program_error"}


def make_files(work):
    """Programs that cannot be started, and some in between."""
    files = {
        "not_executable": ("#!/bin/sh\nexit 0\n", 0o644), "no_interpreter": ("#!/no/such/interpreter\n", 0o755),
        "no_format": ("\x7fNOT", 0o755), "dos.sh": ("#!/bin/sh\r\nexit 0\r\n", 0o755),
        "wrapper.sh": ('#!/bin/sh\n"$@"\nexit $?\n', 0o755),
        "missing.sh": ("#!/bin/sh\nno_such_command --flag\n", 0o755),
    }
    for name, (text, mode) in files.items():
        (work / name).write_text(text)
        (work / name).chmod(mode)


def faults(work, python):
    """(name, command, cause, ranks that may be named, number of ranks); or (name, why it is left out)."""
    found = []
    wrapper, cpp = str(work / "wrapper.sh"), str(work / "faults")

    def add(name, command, cause, ranks=(1,), count=2):
        found.append((name, command, cause, set(ranks), count))

    if shutil.which("g++"):
        subprocess.run(["g++", "-std=c++17", "-O0", "-w", "-pthread", "-o", cpp, str(HERE / "faults.cpp")], check=True)
        for name, cause in CPP.items():
            add("cpp " + name, [cpp, name], cause)
        for name in ("segv", "sigkill", "exit3"):
            add("cpp " + name + " behind a script", [wrapper, cpp, name], CPP[name])
    else:
        found.append(("cpp", "no g++"))
    for name, cause in PYTHON.items():
        ranks, count = ({0, 1, 2, 3}, 4) if name == "all" else ({1}, 2)
        add("python " + name, [python, str(HERE / "faults.py"), name], cause, ranks, count)
    for name, cause in LINES.items():
        ranks = {0, 1} if cause == "collective_timeout" else {1}  # of two, the one that did not come
        add("line " + name, [python, str(HERE / "faults.py"), name], cause, ranks)
    any_rank = {0, 1}
    for name in ("not_executable", "no_interpreter", "no_format", "no_such_file"):
        add("start " + name, ["--no-python", str(work / name)], "cannot_start", any_rank)
    for name in ("dos.sh", "missing.sh"):
        add("start " + name, ["sh", str(work / name)] if name == "missing.sh" else [str(work / name)], "cannot_start", any_rank)
    add("start no script", [python, str(work / "none.py")], "cannot_start", any_rank)
    add("start no module", [python, "-m", "no_such_module"], "cannot_start", any_rank)
    if subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed"], capture_output=True).returncode == 0:
        for name, cause in TORCH.items():
            add("torch " + name, ["/usr/bin/python3", str(HERE / "torch_faults.py"), name], cause)
    else:
        found.append(("torch", "/usr/bin/python3 has no PyTorch"))
    if shutil.which("mpicc"):
        subprocess.run(["mpicc", "-o", str(work / "mpi"), str(HERE / "mpi_faults.c")], check=True)
        for name, cause in MPI.items():
            add("mpi " + name, [str(work / "mpi"), name], cause)
    else:
        found.append(("mpi", "no mpicc"))
    return found


def run_fault(autolaunch, work, fault):
    name, command, cause, ranks, count = fault
    run_dir = work / ("run " + name).replace(" ", "-")
    try:
        done = subprocess.run([autolaunch, "--standalone", "-n", str(count), "--log-dir", str(run_dir), "--shutdown-timeout", "1",
                               "-r", "3"] + command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, cwd=work)
        screen = (done.stdout + done.stderr).decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        screen = f"(no end within {SECONDS} s)"
    first = re.search(r"✗ ranks? (\d+)", screen)
    named = re.search(r"\bcause: (\w+)", screen)
    got = (named.group(1) if named else "nothing", int(first.group(1)) if first else None)
    right = got[0] == cause and got[1] in ranks
    shutil.rmtree(run_dir, ignore_errors=True)
    return name, cause, sorted(ranks), got, right, screen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--autolaunch", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--at-least", type=float, default=0)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--show", action="store_true", help="the screens of misses")
    options = parser.parse_args()
    autolaunch = str(Path(options.autolaunch).resolve())
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        make_files(work)
        work.chmod(0o755)
        everything = faults(work, sys.executable)
        left_out = [fault for fault in everything if len(fault) == 2]
        chosen = [fault for fault in everything if len(fault) > 2 and re.search(options.only, fault[0])]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(lambda fault: run_fault(autolaunch, work, fault), chosen))
    rows = ["| fault | cause | rank | the screen names |", "|---|---|---|---|"]
    for name, cause, ranks, got, right, screen in results:
        said = "the same" if right else f"**{got[0]}, rank {got[1]}**"
        rows.append(f"| {name} | `{cause}` | {', '.join(map(str, ranks))} | {said} |")
        if options.show and not right:
            print(f"--- {name}\n{screen}", file=sys.stderr)
    good = sum(result[4] for result in results)
    share = 100 * good / len(results) if results else 0
    text = f"{good} of {len(results)} are named right, {share:.0f} %.\n\n" + "\n".join(rows) + "\n"
    for name, why in left_out:
        text += f"\nLeft out: {name}, because {why}.\n"
        print(f"left out: {name}: {why}", file=sys.stderr)
    print(text)
    if options.write:
        page = PAGE.read_text()
        before, rest = page.split(BEGIN)
        PAGE.write_text(before + BEGIN + "\n\n" + text + "\n" + END + rest.split(END)[1])
    return 0 if results and share >= options.at_least else 1


if __name__ == "__main__":
    sys.exit(main())
