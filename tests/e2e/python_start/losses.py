"""losses.py AUTOLAUNCH PYTHON TIMES: kills or stops the interpreter that ranks are forked from, at random moments.

Each job restarts once. Whatever happens to the interpreter, each rank runs once in each of its two generations, the job
ends well, and nothing of it is left."""
import collections
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

autolaunch, python, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
SPEC = """trainer: {command: [%s, rank.py], preload: auto}
resource_management: {ranks_per_node: 3}
restart: {max_restarts: 1}
rendezvous: {lost_after: 1s}
"""
RANK = """import json
import logging, decimal, argparse, unittest
import os, time
with open("ran", "a") as ran:
    ran.write(os.environ["TORCHELASTIC_RESTART_COUNT"] + "-" + os.environ["RANK"] + "\\n")
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    while len(open("ran").readlines()) < 3:
        time.sleep(0.005)
    raise SystemExit(1)
"""


def interpreters():
    """Of this folder's job; /proc has their first environment. Ranks have one of their own."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as block:
                if b"\0AUTOLAUNCH_PYTHON_PARENT=" in block.read() and os.getcwd() == os.readlink("/proc/%s/cwd" % pid):
                    yield int(pid)
        except OSError:
            pass


def lose_one(job, way, at):
    """True where it was hit."""
    begun = time.monotonic()
    while time.monotonic() < begun + at and job.poll() is None:
        time.sleep(0.001)
    while job.poll() is None and time.monotonic() < begun + 20:
        for pid in interpreters():
            os.kill(pid, way)
            return True
        time.sleep(0.001)
    return False


def one_job(way, at):
    with open("rank.py", "w") as script, open("spec.yaml", "w") as spec:
        script.write(RANK)
        spec.write(SPEC % python)
    with open("log", "w") as log:
        job = subprocess.Popen([autolaunch, "run", "--log-dir", "run", "-c", "spec.yaml"], stdin=subprocess.DEVNULL, stdout=log,
                               stderr=log, start_new_session=True)
        hit = lose_one(job, way, at)
        code = job.wait(timeout=60)
    ran = collections.Counter(open("ran").read().split())
    wanted = {"%d-%d" % (start, rank): 1 for start in range(2) for rank in range(3)}
    with open("run/exit.json") as file:
        certificate = json.load(file)
    proved = next(gone["count"] for gone in certificate["gone"] if gone["kind"] == "process")
    assert code == 0 and ran == wanted, "exit code %d, ranks %s\n%s" % (code, ran, open("log").read())
    assert certificate["clean"] and proved > len(wanted), certificate
    assert not list(interpreters()), "an interpreter is left"
    return hit


def main():
    seed = random.randrange(1 << 30)
    random.seed(seed)
    hits = collections.Counter()
    turn = -1
    while sum(hits.values()) < times and turn < 5 * times:
        turn += 1
        way = (signal.SIGKILL, signal.SIGSTOP)[turn % 2]
        at = random.uniform(0, 0.25)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                hit = one_job(way, at)
            except BaseException:
                print("seed %d, turn %d: %s after %.3f s" % (seed, turn, way.name, at), flush=True)
                raise
            finally:
                os.chdir("/")
            hits[way.name] += hit
    print("%d jobs came to a good end; their interpreter was hit by %s" % (turn + 1, dict(hits)))
    assert sum(hits.values()) == times, "too few were hit"


main()
