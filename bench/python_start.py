#!/usr/bin/env python3
"""How long Python ranks take to their first line behind the imports: plain, preloaded, and under torchrun.

    bench/python_start.py --autolaunch build/release/launcher/autolaunch --python venv/bin/python --imports torch --ranks 1,2,8

Each line is the median of --runs runs on this machine, whose page cache is warm after the runs that do not count:
seconds from the command to the slowest rank's first line, CPU seconds of ranks and interpreter until then, and of
everything with the ranks' ends; the ranks' PSS together, once all have
imported; what ranks and interpreter have asked the file system for. `again` is from a rank's failure to the slowest rank's
first line in the restart; `one` the same where the others stay in their processes (autolaunch.run), and that one alone is
started anew. Where torchrun is not installed for that Python it says so.
"""
import argparse
import glob
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

RANK = '''
import {imports}
import json, os, resource, time
first_line = time.time()
out, world = os.environ["BENCH_OUT"], int(os.environ["WORLD_SIZE"])
start = os.environ["TORCHELASTIC_RESTART_COUNT"]
def tell(kind, **facts):
    name = os.path.join(out, "%s-%s-%s" % (kind, start, os.environ["RANK"]))
    with open(name + ".new", "w") as file:
        json.dump(facts, file)
    os.rename(name + ".new", name)
def wait_for_all(kind):
    while sum(name.startswith(kind + "-" + start) and not name.endswith(".new") for name in os.listdir(out)) < world:
        time.sleep(0.01)
used = resource.getrusage(resource.RUSAGE_SELF)
tell("first", time=first_line, cpu=used.ru_utime + used.ru_stime)
wait_for_all("first")
pss = next(int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if line.startswith("Pss:"))
io = dict(line.split(": ") for line in open("/proc/self/io").read().splitlines())
tell("facts", pss_kb=pss, read=int(io["rchar"]), calls=int(io["syscr"]))
wait_for_all("facts")
time.sleep(0.3)
if start == "0" and {restart} and os.environ["RANK"] == "0":
    tell("failed", time=time.time())
    os._exit(1)
if start == "0" and {restart}:
    time.sleep(60)
'''

ONE = '''
import {imports}
import autolaunch
import os, time
first_line = time.time()
out, rank, start = os.environ["BENCH_OUT"], os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
open(os.path.join(out, "came-%s-%s" % (start, rank)), "w").write(repr(first_line))
def loop():
    if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0":
        while not os.path.exists(os.path.join(out, "came-1-0")):
            time.sleep(0.02)
        return  # what ends of ranks cost is not measured
    while rank == "0" and sum(name.startswith("came-0") for name in os.listdir(out)) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0.01)
    time.sleep(0.3)
    if rank == "0":
        open(os.path.join(out, "failed"), "w").write(repr(time.time()))
        os._exit(1)
    for step in range(100000):
        autolaunch.report_step(step)
        time.sleep(0.005)
autolaunch.run(loop)
'''


def read(out, kind):
    return [json.load(open(name)) for name in glob.glob(os.path.join(out, kind + "-*")) if not name.endswith(".new")]


def interpreter_io(folder):
    """Bytes, calls and CPU seconds of the interpreter that ranks are forked from, while it lives."""
    try:
        events = open(os.path.join(folder, "run", "events.jsonl")).read()
        pid = re.search(r'"python_preloaded","pid":(\d+)', events).group(1)
        io = dict(line.split(": ") for line in open("/proc/%s/io" % pid).read().splitlines())
        ticks = open("/proc/%s/stat" % pid).read().rpartition(")")[2].split()[11:13]
        return int(io["rchar"]), int(io["syscr"]), sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, KeyError):
        return 0, 0, 0


def run_once(command, imports, ranks, restart):
    folder = tempfile.mkdtemp(prefix="python-start-")
    out = os.path.join(folder, "out")
    os.mkdir(out)
    script = os.path.join(folder, "rank.py")
    open(script, "w").write(RANK.format(imports=imports, restart=restart))
    log = open(os.path.join(folder, "log"), "w")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.time()
    job = subprocess.Popen(command + [script], cwd=folder, stdout=log, stderr=log,
                           env={**os.environ, "BENCH_OUT": out, "OMP_NUM_THREADS": "1"})
    shared = (0, 0, 0)
    while job.poll() is None:
        if len(read(out, "facts-0")) == ranks and shared == (0, 0, 0):
            shared = interpreter_io(folder)
        time.sleep(0.05)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = open(log.name).read()
    if job.returncode != 0 or "trainer.preload" in said:
        raise SystemExit("%s: exit code %d: %s" % (" ".join(command), job.returncode, said[-2000:]))
    facts = read(out, "facts-0")
    result = {"first": max(f["time"] for f in read(out, "first-0")) - begun,
              "first_cpu": sum(f["cpu"] for f in read(out, "first-0")) + shared[2],
              "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
              "pss_mb": sum(f["pss_kb"] for f in facts) / 1024,
              "read_mb": (sum(f["read"] for f in facts) + shared[0]) / 1e6,
              "calls": sum(f["calls"] for f in facts) + shared[1]}
    if restart:
        result["again"] = max(f["time"] for f in read(out, "first-1")) - read(out, "failed")[0]["time"]
    shutil.rmtree(folder)
    return result


def restart_one(command, imports):
    """Seconds from the failure of rank 0 to its first line in the next generation, into which the others come as they are."""
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "rank.py")
        open(script, "w").write(ONE.format(imports=imports))
        done = subprocess.run(command + [script], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              stdin=subprocess.DEVNULL, env={**os.environ, "BENCH_OUT": folder, "OMP_NUM_THREADS": "1"})
        if done.returncode != 0 or "trainer.preload" in done.stdout or glob.glob(os.path.join(folder, "came-1-[1-9]*")):
            raise SystemExit("%s: exit code %d: %s" % (" ".join(command), done.returncode, done.stdout[-2000:]))
        return float(open(os.path.join(folder, "came-1-0")).read()) - float(open(os.path.join(folder, "failed")).read())


def commands(options, ranks):
    count = ["--nproc_per_node", str(ranks), "--max_restarts", "1"]  # as torchrun before 2.0 has them, too
    ours = [options.autolaunch, "run", "--log-dir", "run", *count]
    yield "plain", [*ours, "--preload", "off", "--", options.python]
    yield "preloaded", [*ours, "--preload", "auto", "--", options.python]
    torchrun = subprocess.run([options.python, "-c", "import torch.distributed.run"], capture_output=True)
    if torchrun.returncode == 0:
        yield "torchrun", [options.python, "-m", "torch.distributed.run", "--standalone", *count]
    else:
        print("torchrun is not installed for %s: not measured" % options.python)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--autolaunch", required=True, type=os.path.abspath)
    parser.add_argument("--python", required=True, type=os.path.abspath)
    parser.add_argument("--imports", default="torch", help="as a script has them: torch, transformers")
    parser.add_argument("--ranks", default="1,2,8")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--warm", type=int, default=1, help="runs before, which do not count")
    parser.add_argument("--no-restart", action="store_true", help="then `all cpu` is of one start")
    parser.add_argument("--only", default="plain,preloaded,torchrun")
    options = parser.parse_args()
    print("%-10s %5s %8s %8s %8s %8s %9s %8s %9s %9s" % ("", "ranks", "first s", "its cpu", "all cpu", "PSS MB",
                                                 "read MB", "calls", "again s", "one s"))
    for ranks in map(int, options.ranks.split(",")):
        chosen = [(name, command) for name, command in commands(options, ranks) if name in options.only.split(",")]
        # In turns: what else the machine does then falls on all of them.
        runs = [[run_once(command, options.imports, ranks, not options.no_restart) for _, command in chosen]
                for _ in range(options.runs + options.warm)][options.warm:]
        for (name, command), measured in zip(chosen, zip(*runs)):
            median = {key: statistics.median(m[key] for m in measured) for key in measured[0]}
            one = [restart_one(command, options.imports) for _ in range(0 if options.no_restart or name == "torchrun" else options.runs)]
            print("%-10s %5d %8.2f %8.2f %8.2f %8.0f %9.0f %8d %9.3f %9.3f" % (
                name, ranks, median["first"], median["first_cpu"], median["cpu"], median["pss_mb"], median["read_mb"], median["calls"],
                median.get("again", float("nan")), statistics.median(one) if one else float("nan")), flush=True)


if __name__ == "__main__":
    main()
