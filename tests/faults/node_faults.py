"""Faults of a node, not of a program, on four simulated ones: what ranks cannot do to themselves."""
import glob
import os
import re
import subprocess
import sys
import time

from corpus import Fault
from places import read_screen

FAKETIME = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
# Rank {first} fails, and half a second later rank {second}.
SEQUENCE = "case $RANK in {first}) sleep 1; exit 3;; {second}) sleep 1.5; exit 4;; *) exec sleep 600;; esac"
SKEW = "100"  # seconds; at 300 Slurm itself refuses the node


def eventually(what, holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen")
        time.sleep(0.05)


def started(run_dir, ranks):
    text = "".join(open(path).read() for path in glob.glob(f"{run_dir}/events*.jsonl"))
    return text.count('"event":"rank_started"') >= ranks


def autolaunch_below(pid):
    """{process: name} of keeper, agent and guardian: what is called after autolaunch, from PID on downwards."""
    parents = {}
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            text = open(stat).read()
        except OSError:  # it has ended
            continue
        name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
        parents[int(text.split(" ", 1)[0])] = (int(rest[1]), name)

    def is_below(at):
        while at in parents and at != pid:
            at = parents[at][0]
        return at == pid

    return {at: name for at, (_, name) in parents.items() if is_below(at) and re.match("autolaunch|guardian", name)}


class Table:
    """Rows (name, cause, who, what is wrong or nothing)."""

    def __init__(self, options):
        self.rows, self.options = [], options

    def wants(self, name):
        return re.search(self.options.only, name)

    def add(self, name, cause, who, screen, says=""):
        """`who`: "rank 5 (m2)" or "m2"; an empty cause is of a job that did not come together."""
        got, rank, node = read_screen(screen)
        named = f"rank {rank} ({node})" if rank is not None else ""
        if not named and (lost := re.search(r"✗ (?:node )?(\S+) was lost|✗ (the head) was lost|✗ (\S+): autolaunch itself", screen)):
            named = lost.group(1) or lost.group(2) or lost.group(3)
        wrong = "" if (got == cause or not cause) and named == who else f"{got}, {named or 'nobody'}"
        if not wrong and says not in screen:
            wrong = f'no word of "{says}"'
        self.rows.append((name, cause or "none", who or says, wrong))
        if self.options.show and wrong:
            print(f"--- {name}: {wrong}\n{screen}", file=sys.stderr)


def kill_agent(agents):
    for pid, name in autolaunch_below(agents[2].pid).items():
        if name == "autolaunch":
            os.kill(pid, 9)


def kill_keeper(agents):
    for pid, name in autolaunch_below(agents[2].pid).items():
        if name == "autolaunch-keep":
            os.kill(pid, 9)


def kill_all_three(agents):
    own = autolaunch_below(agents[2].pid)
    for signal in (19, 9):  # stopped first, so that none sees the others' end
        for pid in own:
            os.kill(pid, signal)


def cable(state):
    subprocess.run(["ip", "link", "set", "m2", state], check=True)


def run(place, work, options):
    table = Table(options)

    def job(name, program, prefixes={}):
        run_dir = work / ("run-" + name.replace(" ", "-"))
        return run_dir, place.start(Fault(name, ["--no-python", *program], ""), run_dir, work, prefixes=prefixes)

    for name, does in (("agent killed", kill_agent), ("keeper killed", kill_keeper), ("all three killed", kill_all_three),
                       ("cable cut", lambda _: cable("down"))):
        if table.wants("node " + name):
            run_dir, agents = job(name, ["sleep", "600"])
            eventually("the start of all ranks", lambda: started(run_dir, place.world))
            does(agents)
            cause = "agent_killed" if name == "keeper killed" else "node_lost"
            table.add("node " + name, cause, "m2", place.screens(agents)[0])
            cable("up")
    for first, second, node in ((5, 2, "m2"), (2, 5, "m1")):
        name = f"node {node} fails first, m1's clock is late"
        if FAKETIME and table.wants(name):
            late = ["env", f"LD_PRELOAD={FAKETIME[0]}", f"FAKETIME=+{SKEW}s"]
            _, agents = job(name, ["sh", "-c", SEQUENCE.format(first=first, second=second)], {"m1": late})
            table.add(name, "program_error", f"rank {first} ({node})", place.screens(agents)[0])
    return table.rows
