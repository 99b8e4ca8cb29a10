#!/usr/bin/env python3
"""The same command lines for torchrun and for autolaunch, and what came of them side by side.

    tests/real/torchrun.py AUTOLAUNCH [--only PART] [--list]

Run it with a Python whose torch is installed (pip install torch). Compared for each line: the exit code, the arguments
and variables of every rank, what reached the terminal, and the log files. What differs must be one of DIFFERENCES, each
of which docs/guides/from-torchrun.md gives the reason of; every other difference is a failure. Exits with 0, 1 where
something else differs, and 77 (with the reason) where torch is not there.

torchrun is its own main(), in a process forked from this one, so that torch is imported once.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
GUIDE = os.path.join(HERE, "../../docs/guides/from-torchrun.md")
LIMIT_S = 120
OLDEST = (2, 15)
STARTED = []
SCREEN = re.compile(r"^ +(\| |cause: )")  # a failure's last lines, once more
LOST_LINES = 3  # how often a line is repeated in which torchrun's --tee lost what a rank wrote, as it does on a busy machine

# What differs on purpose: a name, and the words by which the guide tells it.
DIFFERENCES = {
    "exit code of a failed rank": "the failing rank's own",
    "exit code of a wrong line": "64",
    "exit code of a stopped job": "128+N",
    "OMP_NUM_THREADS": "physical cores of the rank's share",
    "prefix": "[host rank]",
    "log files": "always files",
    "run path": "an interpreter of its own",
    "macros": "untouched",
    "plain program": "runs a program that can be executed",
    "accepts more": "takes what torchrun refuses",
    "run id": "names the run in any case",
    "one of several": "refuses to train alone",
}

PROBE = r'''
import json, os, signal, sys, time
out = os.environ["PROBE_OUT"]
record = {"argv": sys.argv[1:], "name": __name__, "env": dict(os.environ)}
path = f"{out}/{os.environ.get('RANK', 'x')}.{os.environ.get('TORCHELASTIC_RESTART_COUNT', 'x')}"
with open(path + ".new", "w") as file:
    json.dump(record, file)
os.rename(path + ".new", path + ".json")
print("out of", os.environ.get("RANK"), flush=True)
print("err of", os.environ.get("RANK"), file=sys.stderr, flush=True)
what = os.environ.get("PROBE_DO", "")
rank = os.environ.get("RANK")
attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT")
open(f"{out}/said.{rank}.{attempt}", "w").close()
while what and not all(os.path.exists(f"{out}/said.{other}.{attempt}") for other in range(int(os.environ["WORLD_SIZE"]))):
    time.sleep(0.01)  # whoever fails ends the others: not before they have said what they say
if what.startswith("exit") and rank == os.environ.get("PROBE_RANK", rank):
    sys.exit(int(what[4:]))
if what.startswith("once") and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    sys.exit(int(what[4:]))
if what.startswith("kill") and rank == os.environ.get("PROBE_RANK", rank):
    os.kill(os.getpid(), int(what[4:]))
if what == "wait":
    def note(number, frame):
        with open(f"{out}/signal.{rank}", "w") as file:
            file.write(signal.Signals(number).name)
        sys.exit(0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
        signal.signal(number, note)
    open(f"{out}/ready.{rank}", "w").close()
    time.sleep(60)
'''

SAME = ("RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_NAME ROLE_WORLD_SIZE "
        "TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_USE_AGENT_STORE "
        "TORCH_NCCL_ASYNC_ERROR_HANDLING TORCHELASTIC_SIGNALS_TO_HANDLE CUDA_VISIBLE_DEVICES "
        "USER_WORD").split()


class Case:
    def __init__(self, line, env=None, signal=None, also=(), same=(), exact_output=False, known=()):
        self.line, self.env, self.signal = line, env or {}, signal
        self.also = also                  # variables compared besides SAME
        self.exact_output = exact_output  # the terminal's lines with what stands before them
        self.known = set(known)           # names of DIFFERENCES that this line may show
        self.name = " ".join([f"{k}={v}" for k, v in self.env.items()] + line) + (
            f"  (signal {signal.name})" if signal else "")


def cases():
    c = []
    def add(line, **more):
        c.append(Case(line.split() if isinstance(line, str) else line, **more))
    failed, wrong, stopped = "exit code of a failed rank", "exit code of a wrong line", "exit code of a stopped job"
    # how many ranks, in every spelling
    for words in ("", "--nproc-per-node 1", "--nproc-per-node 2", "--nproc_per_node 2", "--nproc-per-node=3",
                  "--nproc_per_node=2", "--nnodes 1 --nproc-per-node 2", "--nnodes=1:1 --nproc-per-node=2",
                  "--standalone --nproc-per-node=2", "--standalone --nnodes=1 --nproc-per-node=2",
                  "--nproc-per-node=cpu", "--nproc-per-node=auto", "--node-rank=0 --nproc-per-node=2",
                  "--node_rank 0", "--nnodes=1 --node-rank=0 --master-addr=127.0.0.1 --nproc-per-node=2"):
        add(f"{words} probe.py")
    # shortened
    for words in ("--standalon", "--nnode=1", "--max-r=2", "--redirect=0", "--rol=a", "--nproc-per=2", "--nproc_p=2", "--no-pyth python3"):
        add(f"{words} probe.py")
    add("--monitor=1 probe.py", known=["accepts more"])  # there -interval and _interval are two
    # words of the job
    add("--role=trainer --nproc-per-node=2 probe.py")
    add("--max-restarts=3 probe.py")
    add("--max_restarts 0 probe.py")
    add("--rdzv-id=job7 probe.py", also=["TORCHELASTIC_RUN_ID"], known=["run id"])
    add("--rdzv_id job7 --nproc-per-node=2 probe.py", also=["TORCHELASTIC_RUN_ID"], known=["run id"])
    add("--rdzv-backend=c10d --rdzv-endpoint=localhost:0 --rdzv-id=a --nproc-per-node=2 probe.py",
        also=["TORCHELASTIC_RUN_ID"])
    add("--rdzv-backend=static probe.py")
    add("--rdzv-conf=timeout=30 probe.py")
    add("--rdzv-conf=join_timeout=30,last_call_timeout=1 --rdzv-backend=c10d --rdzv-endpoint=localhost:0 probe.py")
    add("--monitor-interval=0.05 probe.py")
    add("--monitor_interval 1 probe.py")
    add("--start-method=fork probe.py")
    add("--start-method=spawn probe.py")
    add("--event-log-handler=null probe.py")
    add("--master-addr=127.0.0.1 --master-port=29671 probe.py", also=["MASTER_PORT", "MASTER_ADDR"])
    add("--master_port 29672 --nproc-per-node=2 probe.py", also=["MASTER_PORT"])
    add("--local-addr=127.0.0.1 probe.py")
    add("--shutdown-timeout=5 probe.py")
    add("--shutdown_timeout 3 --nproc-per-node=2 probe.py")
    add("--signals-to-handle=SIGTERM,SIGINT probe.py")
    add("--signals_to_handle=SIGTERM,SIGUSR1 probe.py")
    add("--virtual-local-rank --nproc-per-node=2 probe.py")
    add("--virtual_local_rank --nproc-per-node=2 probe.py", env={"CUDA_VISIBLE_DEVICES": "4,7"})
    # variables in the place of options
    add("probe.py", env={"PET_NPROC_PER_NODE": "2"})
    add("--nproc-per-node=1 probe.py", env={"PET_NPROC_PER_NODE": "2"})
    add("probe.py", env={"PET_MAX_RESTARTS": "4", "PET_NNODES": "1"})
    add("probe.py", env={"PET_ROLE": "r", "PET_RDZV_ID": "x"}, also=["TORCHELASTIC_RUN_ID"],
        known=["run id"])
    add("probe.py", env={"PET_STANDALONE": "1", "PET_NPROC_PER_NODE": "2"})
    add("probe.py", env={"PET_NODE_RANK": "0"})
    add("probe.py", env={"PET_SHUTDOWN_TIMEOUT": "4"})
    add("probe.py", env={"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "4"})
    add("probe.py", env={"USER_WORD": "kept"})
    add("probe.py", env={"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"})
    add("--nproc-per-node=2 probe.py", env={"OMP_NUM_THREADS": "3"}, also=["OMP_NUM_THREADS"])
    add("--nproc-per-node=2 probe.py", also=["OMP_NUM_THREADS"], known=["OMP_NUM_THREADS"])
    add("probe.py", env={"RANK": "5", "WORLD_SIZE": "9", "LOCAL_RANK": "5"}, known=["one of several"])
    add("--standalone probe.py", env={"RANK": "5", "WORLD_SIZE": "9", "LOCAL_RANK": "5"})
    # arguments
    add("probe.py --lr 3e-4 -n 3 --nproc-per-node=9")
    add("probe.py -- -n 3")
    add("probe.py a -- b")
    add("-- probe.py a")
    add("-- probe.py -- a")
    add("--nproc-per-node=2 -- probe.py --standalone")
    add(["probe.py", "two words", "", "'quoted'", "ü", "a=b", "-"])
    add(["probe.py", "--", "--"])
    add(["probe.py", "*", "~", "$HOME", ";", "|"])
    add(["probe.py", "${local_rank}"], known=["macros"])
    add(["--nproc-per-node=2", "probe.py", "x" * 5000])
    # how the program is run
    add("-m probe_module a b")
    add("--module probe_module")
    add("-m package.inner --x")
    add("-m probe_module -- -n 3")
    add("script a")
    add("./script a")
    add("folder/probe.py a")
    add("./probe.py")
    add("--no-python ./probe.sh a b")
    add("--no_python python3 probe.py a")
    add("--no-python --nproc-per-node=2 ./probe.sh")
    add("executable.py a")
    add("executable a", known=["plain program"])
    add("--run-path $PWD/probe.py a", known=["run path"])
    add("probe.py", env={"PYTHON_EXEC": sys.executable})
    # what reaches the terminal, and files
    for words in ("-r 0", "-r 1", "-r 2", "-r 3", "-t 3", "-t 1", "-r 3 -t 3", "-r 0:1,1:2", "-t 0:3,1:3", "-r 1:3",
                  "--redirects=3", "--tee 3", "--local-ranks-filter=0", "--local_ranks_filter 1 -t 3", "-r3", "-t3"):
        add(f"{words} --log-dir logs --nproc-per-node=2 probe.py", known=["prefix", "log files"])
    add("--log-dir logs --nproc-per-node=2 probe.py", known=["prefix", "log files"])
    add("--log_dir=logs -r 3 probe.py", known=["prefix", "log files"])
    for template in ("[${role_name}${local_rank}]:", "${rank}> ", "$rank$local_rank|", "a$$b ${none} "):
        add(["-t", "3", "--log-dir=logs", "--nproc-per-node=2", f"--log-line-prefix-template={template}", "probe.py"],
            exact_output=True, known=["log files"])
    add("-t 3 --log-dir=logs --nproc-per-node=2 probe.py", env={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "<$rank>"},
        exact_output=True, known=["log files"])
    # ends
    for code in (1, 2, 3, 77, 255):
        add("probe.py", env={"PROBE_DO": f"exit{code}"}, known=[failed])
    add("--nproc-per-node=2 probe.py", env={"PROBE_DO": "exit3", "PROBE_RANK": "1"}, known=[failed])
    add("probe.py", env={"PROBE_DO": "exit0"})
    for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM):
        add("probe.py", env={"PROBE_DO": f"kill{int(number)}"}, known=[failed])
    add("--max-restarts=2 probe.py", env={"PROBE_DO": "once5"})
    add("--max-restarts=1 --nproc-per-node=2 probe.py", env={"PROBE_DO": "once5"})
    add("--max-restarts=1 probe.py", env={"PROBE_DO": "exit4"}, known=[failed])
    add("not-there.py", known=[failed])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        add("--nproc-per-node=2 probe.py", env={"PROBE_DO": "wait"}, signal=number, known=[stopped])
    add("--signals-to-handle=SIGUSR1 probe.py", env={"PROBE_DO": "wait"}, signal=signal.SIGUSR1, known=[stopped])
    # wrong
    for words in ("", "--nproc-per-node=many probe.py", "--nproc-per-node probe.py", "--not-an-option probe.py",
                  "--max-restarts=x probe.py", "--nnodes=1:2:3 probe.py", "--nnodes=x probe.py", "-r 4 probe.py",
                  "-t x probe.py", "--local-ranks-filter=a probe.py", "--start-method=thread probe.py",
                  "--no probe.py", "--standalone=maybe probe.py", "--rdzv-conf=a probe.py", "--max-restarts=-1 probe.py",
                  "--nnodes=2:1 probe.py", "--node-rank=a probe.py", "--numa-binding=near probe.py",
                  "--shutdown-timeout=x probe.py"):
        add(words, known=[wrong, "accepts more"])
    add("--print-completion=bash", known=["accepts more"])  # there it needs a package of its own
    add("--help")
    add("-h")
    return c


def make_folder(folder):
    os.makedirs(folder + "/package")
    os.makedirs(folder + "/folder")
    os.makedirs(folder + "/records")
    for name in ("probe.py", "probe_module.py", "script", "folder/probe.py", "package/inner.py"):
        with open(f"{folder}/{name}", "w") as file:
            file.write(PROBE)
    open(folder + "/package/__init__.py", "w").close()
    for name in ("executable", "executable.py"):
        with open(f"{folder}/{name}", "w") as file:
            file.write(f"#!{sys.executable}\n" + PROBE)
        os.chmod(f"{folder}/{name}", 0o755)
    with open(folder + "/probe.sh", "w") as file:
        file.write(f'#!/bin/sh\nexec {sys.executable} -u probe.py "$@"\n')
    os.chmod(folder + "/probe.sh", 0o755)


def environment_of(case, folder):
    keep = {k: v for k, v in os.environ.items() if not re.match(
        "(PET_|TORCH|SLURM|PMI|OMPI|AUTOLAUNCH|RANK|LOCAL_|WORLD|MASTER_|GROUP_|ROLE_|OMP_|CUDA_|PYTHON)", k)}
    keep.update(PROBE_OUT=folder + "/records", PYTHON_EXEC=sys.executable, PYTHONDONTWRITEBYTECODE="1")
    keep.update(case.env)
    return keep


def start_torchrun(line, folder, env):
    """A fork of this process: torch is imported already."""
    out, err = open(folder + "/stdout", "wb"), open(folder + "/stderr", "wb")
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        os.chdir(folder)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        os.environ.clear()
        os.environ.update(env)
        sys.argv = ["torchrun", *line]
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        from torch.distributed.run import main
        main(line)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else (0 if end.code is None else 1)
    except BaseException:
        import traceback
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def start_autolaunch(line, folder, env):
    out, err = open(folder + "/stdout", "wb"), open(folder + "/stderr", "wb")
    started = subprocess.Popen([AUTOLAUNCH, "-q", *line], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out,
                               stderr=err, start_new_session=True)
    STARTED.append(started)  # or its end would reap the process
    return started.pid


def wait_for(pid, deadline):
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "did not end"


def ready(folder, ranks):
    return all(os.path.exists(f"{folder}/records/ready.{rank}") for rank in range(ranks))


def run(launcher, case):
    folder = tempfile.mkdtemp(prefix="torchrun-", dir=WORK)
    make_folder(folder)
    line = [word.replace("$PWD", folder) for word in case.line]
    pid = launcher(line, folder, environment_of(case, folder))
    deadline = time.monotonic() + LIMIT_S
    if case.signal:
        while not ready(folder, 2 if "--nproc-per-node=2" in line else 1) and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(pid, case.signal)
    result = {"code": wait_for(pid, deadline), "ranks": {}, "signals": {}}
    for name in sorted(os.listdir(folder + "/records")):
        path = f"{folder}/records/{name}"
        if name.endswith(".json"):
            with open(path) as file:
                result["ranks"][name] = json.load(file)
        elif name.startswith("signal."):
            with open(path) as file:
                result["signals"][name] = file.read()
    for stream in ("stdout", "stderr"):
        with open(f"{folder}/{stream}", errors="replace") as file:
            result[stream] = [line for line in file.read().split("\n") if re.search("(out|err) of [0-9]+$", line) and not SCREEN.match(line)]
    result["files"] = sorted(os.path.relpath(os.path.join(at, name), folder + "/logs")
                             for at, _, names in os.walk(folder + "/logs") for name in names)
    shutil.rmtree(folder)
    return result


def bare(lines):
    return sorted(re.sub(r"^.*?((out|err) of [0-9]+)$", r"\1", line) for line in lines)


def lost_by_torchrun(theirs, ours):
    return theirs["code"] == ours["code"] and any(
        set(bare(theirs[stream])) < set(bare(ours[stream])) for stream in ("stdout", "stderr"))


def run_both(case):
    """torchrun's result and autolaunch's, and how often torchrun was asked again."""
    for again in range(LOST_LINES + 1):
        theirs, ours = run(start_torchrun, case), run(start_autolaunch, case)
        if case.signal or not lost_by_torchrun(theirs, ours):
            break
    return theirs, ours, again


def kind_of(code):
    return "success" if code == 0 else "failure"


def differences(case, theirs, ours):
    """Pairs (name of a known difference or None, words)."""
    found = []
    def differ(name, what, a, b):
        found.append((name if name in case.known else None, f"{what}: torchrun {a!r}, autolaunch {b!r}"))
    if theirs["code"] != ours["code"]:
        names = [n for n in case.known if n.startswith("exit code") or n == "accepts more"]
        same_kind = kind_of(theirs["code"]) == kind_of(ours["code"])
        name = next((n for n in names if n.startswith("exit code")), None) if same_kind else (
            "accepts more" if ours["code"] == 0 else "one of several")
        differ(name, "exit code", theirs["code"], ours["code"])
        if not same_kind and name in case.known:
            return found
    if sorted(theirs["ranks"]) != sorted(ours["ranks"]):
        differ(None, "ranks and attempts", sorted(theirs["ranks"]), sorted(ours["ranks"]))
    for name in sorted(set(theirs["ranks"]) & set(ours["ranks"])):
        a, b = theirs["ranks"][name], ours["ranks"][name]
        if a["argv"] != b["argv"]:
            differ("macros", f"arguments of {name}", a["argv"], b["argv"])
        if a["name"] != b["name"]:
            differ("run path", f"__name__ of {name}", a["name"], b["name"])
        for variable in [*SAME, *case.also]:
            if a["env"].get(variable) != b["env"].get(variable):
                name_of = "run id" if variable == "TORCHELASTIC_RUN_ID" else variable
                differ(name_of, f"{variable} of {name}", a["env"].get(variable), b["env"].get(variable))
    if theirs["signals"] != ours["signals"]:
        differ(None, "signals", theirs["signals"], ours["signals"])
    for stream in ("stdout", "stderr"):
        a, b = theirs[stream], ours[stream]
        if case.exact_output and sorted(a) != sorted(b):
            differ(None, stream, a, b)
        if bare(a) != bare(b) and not case.signal:
            differ(None, stream, a, b)
        elif a != b and "prefix" in case.known:
            differ("prefix", stream, a, b)
    if "log files" in case.known and theirs["files"] != ours["files"]:
        differ("log files", "files", theirs["files"], ours["files"])
    return found


def main():
    global AUTOLAUNCH, WORK
    arguments = [a for a in sys.argv[1:] if a != "--list"]
    only = arguments[arguments.index("--only") + 1] if "--only" in arguments else ""
    chosen = [case for case in cases() if only in case.name]
    if "--list" in sys.argv:
        print("\n".join(case.name for case in chosen))
        return 0
    AUTOLAUNCH = os.path.abspath(arguments[0])
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup autolaunch leaves it ignored
    try:
        import torch
        import torch.distributed.run  # noqa: F401
    except ImportError as missing:
        print(f"SKIPPED: no torchrun to compare with: {missing} (pip install torch)")
        return 77
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < OLDEST:
        print(f"SKIPPED: torch {torch.__version__} is older than what the lines are of, {OLDEST[0]}.{OLDEST[1]} "
              "(pip install torch, and REAL_TORCH names that Python)")
        return 77
    with open(GUIDE) as file:
        guide = re.sub(r"\s+", " ", file.read())
    untold = [name for name, words in DIFFERENCES.items() if words not in guide]
    wrong, known, repeated = [], {}, 0
    print(f"torchrun of torch {torch.__version__}, {len(chosen)} command lines")
    WORK = tempfile.mkdtemp(prefix="torchrun-", dir=os.environ.get("TMPDIR", "/tmp"))
    try:
        for case in chosen:
            theirs, ours, again = run_both(case)
            found = differences(case, theirs, ours)
            repeated += again
            for name, words in found:
                if name is None:
                    wrong.append((case.name, words))
                    print(f"DIFFERS  {case.name[:200]}\n         {words[:600]}", flush=True)
                else:
                    known.setdefault(name, []).append(case.name)
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    for name, lines in sorted(known.items()):
        print(f"on purpose: {name}, in {len(lines)} places")
    if repeated:
        print(f"repeated {repeated} times: torchrun had lost lines of its ranks")
    for name in untold:
        print(f"NOT TOLD in the guide: {name}")
    print(f"{len(chosen)} command lines, {len(wrong)} differences that nobody wants")
    return 1 if wrong or untold else 0


if __name__ == "__main__":
    sys.exit(main())
