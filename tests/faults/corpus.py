"""The faults: what is run, and what the first screen must name."""
import dataclasses
import os
import shutil
import subprocess
from pathlib import Path

from wild import WILD
from words import WORDS

HERE = Path(__file__).resolve().parent

CPP = {
    "exit3": "program_error", "exit255": "program_error", "return_after_words": "program_error", "throw": "program_error",
    "throw_int": "program_error", "throw_in_thread": "program_error", "bad_alloc": "out_of_memory", "abort": "crash",
    "assert": "crash", "segv": "crash", "bus": "crash", "ill": "crash", "fpe": "crash", "stack": "crash",
    "double_free": "crash", "sigkill": "killed", "sigterm": "killed", "sigusr1": "killed", "xcpu": "killed",
    "full_disk": "storage", "file_limit": "storage", "descriptors": "program_error", "fork_limit": "program_error",
    "much_output": "program_error", "no_newline": "program_error", "escapes": "program_error", "daemon": "program_error",
    "ignores_term": "program_error",
    "nested": "program_error", "noexcept": "program_error", "joinable": "program_error", "pure_virtual": "program_error",
    "filesystem": "program_error", "smashed": "crash", "overrun": "crash", "fortified": "crash", "cut_mapping": "crash",
    "wild_jump": "crash", "broken_pipe": "program_error", "threads": "program_error", "map_refused": "out_of_memory",
    "future": "program_error", "too_long": "program_error", "stopped_timer": "killed",
}
PYTHON = {
    "raise": "program_error", "saved_in_vain": "storage", "exit7": "program_error", "exit_text": "program_error",
    "import": "program_error", "syntax": "program_error", "recursion": "program_error", "memory": "out_of_memory",
    "abort": "crash", "segfault": "crash", "error_file": "program_error", "library": "cannot_start", "read_error": "storage",
    "resolve": "network", "refused": "network", "descriptors": "program_error", "child_fails": "program_error",
    "survived": "program_error", "peer_killed": "killed", "slow_end": "program_error", "left_early": "program_error",
    "all": "program_error", "nested": "program_error",
    "exit256": "program_error", "waits_in_vain": "program_error", "in_thread": "program_error", "logged": "program_error",
    "pool_child_killed": "program_error", "child_crashes": "crash", "hook": "program_error", "group": "program_error",
    "mapped_too_much": "out_of_memory", "thread_limit": "program_error", "at_exit": "program_error",
    "os_exit": "program_error", "interrupts_itself": "killed", "cut_pickle": "storage", "no_unicode": "program_error",
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
    "full_disk": "storage", "spawned": "crash", "loader_killed": "killed", "loader_raises": "program_error",
    "shapes": "program_error",
}
MPI = {"abort": "mpi_abort", "crash": "crash", "leaves": "program_error", "late_code": "program_error"}

# What the screen must have besides cause and rank: of errors that something else could hide.
SAYS = {
    "cpp nested": "cannot load the data", "cpp smashed": "stack smashing", "python in_thread": "ValueError: bad shard",
    "python logged": "no data in /data", "python hook": "ValueError: bad shard", "python at_exit": "ValueError: bad shard",
    "python group": "two workers failed", "shell unbound": "DATA", "cpp broken_pipe": "SIGPIPE",
}

# Only rank FAULT_RANK fails.
MINE = '[ "$RANK" = "${FAULT_RANK:-1}" ] || exec sleep 600\n'
SCRIPTS = {  # name: (text, mode)
    "not_executable": ("#!/bin/sh\nexit 0\n", 0o644), "no_interpreter": ("#!/no/such/interpreter\n", 0o755),
    "no_format": ("\x7fNOT", 0o755), "dos.sh": ("#!/bin/sh\r\nexit 0\r\n", 0o755),
    "wrapper.sh": ('#!/bin/sh\n"$@"\nexit $?\n', 0o755), "missing.sh": ("#!/bin/sh\nno_such_command --flag\n", 0o755),
    "hides.sh": ('#!/bin/bash\n"$@" || { echo "training failed"; exit 1; } >&2\n', 0o755),
    "dash.sh": ('#!/bin/dash\n"$@" || exit 1\n', 0o755),
    "chain.sh": ('#!/bin/sh\nexec env A=1 nice -n 1 "$@"\n', 0o755),
    "setsid.sh": ('#!/bin/sh\nexec setsid --fork --wait "$@"\n', 0o755),
    "pipe.sh": ('#!/bin/bash\nset -o pipefail\n"$@" | cat\n', 0o755),
    "no_python": ("#!/usr/bin/env no_such_python\n", 0o755), "env_flags": ("#!/usr/bin/env python3 -u\nprint(1)\n", 0o755),
    "unbound": ("#!/bin/bash\n" + MINE + "set -u\necho $DATA\n", 0o755),
    "timeout": ("#!/bin/sh\n" + MINE + "exec timeout 1 sleep 600\n", 0o755),
    "timeout_kill": ("#!/bin/sh\n" + MINE + "timeout -s KILL 1 sleep 600\n", 0o755),
    "endless.sh": ("#!/bin/sh\nif true; then\n", 0o755),
    "cpu_limit": ("#!/bin/bash\n" + MINE + "ulimit -t 1\nwhile :; do :; done\n", 0o755),
    "killed_by_watchdog": ("#!/bin/bash\n" + MINE + "sleep 600 &\nkill -9 $!\nwait $!\n", 0o755),
}


@dataclasses.dataclass
class Fault:
    name: str
    command: list
    cause: str
    ranks: object = None  # names that are right: "culprit", "any", or "pair" of two who waited for one another
    count: int = 0        # ranks; 0: as many as the place has
    in_cgroup: bool = False

    @property
    def says(self):
        return SAYS.get(self.name, "")


def write_scripts(work):
    for name, (text, mode) in SCRIPTS.items():
        (work / name).write_text(text)
        (work / name).chmod(mode)


def build(work):
    """The compiled programs; what is left out, and why."""
    left_out = []
    if not shutil.which("g++"):
        return [("cpp", "no g++")]
    subprocess.run(["g++", "-std=c++17", "-O0", "-w", "-pthread", "-fstack-protector-all", "-o", work / "faults",
                    HERE / "faults.cpp"], check=True)
    for name, source in (("old", "int f() { return 1; }"), ("new", "int g() { return 1; }")):
        (work / f"{name}.cpp").write_text(source)
        subprocess.run(["g++", "-shared", "-fPIC", "-o", work / f"lib{name}.so", work / f"{name}.cpp"], check=True)
    (work / "uses.cpp").write_text("int f(); int main() { return f(); }")
    subprocess.run(["g++", "-o", work / "no_symbol", work / "uses.cpp", work / "libold.so", f"-Wl,-rpath,{work}"], check=True)
    shutil.copy(work / "libold.so", work / "libgone.so")
    subprocess.run(["g++", "-o", work / "no_library", work / "uses.cpp", f"-L{work}", "-l:libgone.so", f"-Wl,-rpath,{work}",
                    "-Wl,-soname,x"], check=True)
    os.replace(work / "libnew.so", work / "libold.so")
    os.unlink(work / "libgone.so")
    if shutil.which("mpicc"):
        subprocess.run(["mpicc", "-o", work / "mpi", HERE / "mpi_faults.c"], check=True)
    return left_out


def faults(work, python):
    """All of them, and (name, why) of what is left out here."""
    found, left_out = [], build(work)
    script = lambda name: str(work / name)
    numpy = subprocess.run(["/usr/bin/python3", "-c", "import numpy"], capture_output=True).returncode == 0
    there = lambda tool: numpy if tool == "numpy" else shutil.which(tool)
    cpp = script("faults")

    def add(name, command, cause, ranks="culprit", **more):
        found.append(Fault(name, command, cause, ranks, **more))

    if not left_out:
        for name, cause in CPP.items():
            add("cpp " + name, [cpp, name], cause)
        for name in ("segv", "sigkill", "exit3"):
            add(f"cpp {name} behind a script", [script("wrapper.sh"), cpp, name], CPP[name])
        for wrapper, name in (("hides", "segv"), ("hides", "sigkill"), ("hides", "abort"), ("dash", "segv"), ("chain", "segv"),
                              ("chain", "sigkill"), ("setsid", "segv"), ("pipe", "segv")):
            add(f"shell {wrapper} {name}", [script(wrapper + ".sh"), cpp, name], CPP[name])
        add("start no_library", [script("no_library")], "cannot_start", "any")
        add("start no_symbol", [script("no_symbol")], "cannot_start", "any")
        add("cgroup memory", [cpp, "eat_memory"], "out_of_memory", in_cgroup=True)
        add("cgroup memory of a child", [script("hides.sh"), cpp, "eat_memory"], "out_of_memory", in_cgroup=True)
    for name, cause in PYTHON.items():
        add("python " + name, [python, str(HERE / "faults.py"), name], cause, "any" if name == "all" else "culprit",
            count=4 if name == "all" else 0)
    for name, cause in LINES.items():  # of two who wait, the one that did not come
        add("line " + name, [python, str(HERE / "faults.py"), name], cause, "pair" if cause == "collective_timeout" else "culprit")
    for name, (cause, _, _) in WORDS.items():
        add(("after " if cause == "follower" else "words ") + name, [python, str(HERE / "words.py"), name],
            "program_error" if cause == "follower" else cause, "pair" if cause == "collective_timeout" else "culprit")
    for name, (cause, needs, text) in WILD.items():
        if missing := [tool for tool in needs.split() if not there(tool)]:
            left_out.append(("wild " + name, "there is no " + missing[0]))
            continue
        path = work / f"wild-{name}"
        path.write_text(f"#!/bin/sh\n{MINE}F={cpp} D=$AUTOLAUNCH_RUN_DIR/of-it\nmkdir $D\n{text}\n")
        path.chmod(0o755)
        add("wild " + name, [str(path)], cause)
    for name in ("unbound", "timeout", "timeout_kill", "cpu_limit", "killed_by_watchdog"):
        add("shell " + name, [script(name)], "program_error" if name in ("unbound", "timeout") else "killed")
    add("shell endless", [script("endless.sh")], "program_error", "any")
    for name in ("not_executable", "no_interpreter", "no_format", "no_such_file", "no_python", "env_flags"):
        add("start " + name, ["--no-python", script(name)], "cannot_start", "any")
    add("start dos.sh", [script("dos.sh")], "cannot_start", "any")
    add("start missing.sh", ["sh", script("missing.sh")], "cannot_start", "any")
    add("start no script", [python, script("none.py")], "cannot_start", "any")
    add("start no module", [python, "-m", "no_such_module"], "cannot_start", "any")
    if subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed"], capture_output=True).returncode == 0:
        for name, cause in TORCH.items():
            add("torch " + name, ["/usr/bin/python3", str(HERE / "torch_faults.py"), name], cause)
    else:
        left_out.append(("torch", "/usr/bin/python3 has no PyTorch"))
    if (work / "mpi").exists():
        for name, cause in MPI.items():
            add("mpi " + name, [script("mpi"), name], cause)
    else:
        left_out.append(("mpi", "no mpicc"))
    return found, left_out
