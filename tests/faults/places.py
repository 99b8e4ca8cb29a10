"""Where faults are run: on this machine, or on four that are simulated. Each place launches a job and gives its screen."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

SECONDS = 120  # for a fault; most take less than one
MEMORY = 300 << 20  # of a control group that runs out of it


def child_environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "PET_"))}
    return {**kept, **{name: str(value) for name, value in more.items()}}


def text_of(output):
    return output.decode("utf-8", "replace")


class Cgroup:
    """One with little memory, where this machine lets us make it: `prefix` goes before the command that shall be in it."""

    def __init__(self, name):
        self.folder, self.why_not, self.prefix = Path("/sys/fs/cgroup/memory/" + name), "", []
        limit = "memory.limit_in_bytes"
        if not self.folder.parent.exists():
            self.folder, limit = Path("/sys/fs/cgroup/" + name), "memory.max"
        try:
            self.folder.mkdir()
            (self.folder / limit).write_text(str(MEMORY))
        except OSError as error:
            self.why_not = f"no memory control group can be made: {error}"
            self.remove()
            return
        self.prefix = ["sh", "-c", f'echo $$ >{self.folder}/cgroup.procs && exec "$@"', "sh"]

    def remove(self):
        with contextlib.suppress(OSError):
            self.folder.rmdir()


def certificates(run_dir, nodes):
    """What is wrong with exit.json of each node; nothing: all are there, and clean."""
    for node in range(nodes):
        path = run_dir / ("exit.json" if node == 0 else f"exit.node-{node}.json")
        try:
            certificate = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            return f"{path.name}: {error}"
        if not certificate["clean"] or certificate["node_rank"] != node:
            return f"{path.name}: {certificate['left']}"
    return ""


class OneNode:
    name, world, culprit, nodes = "one", 2, 1, 1

    def __init__(self, autolaunch):
        self.autolaunch = autolaunch

    def node_of(self, rank):
        return None

    def run(self, fault, run_dir, cwd, prefix=()):
        count = fault.count or self.world
        done = subprocess.run([*prefix, self.autolaunch, "--standalone", "-n", str(count), "--log-dir", run_dir,
                               "--shutdown-timeout", "1", "-r", "3"] + fault.command, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=SECONDS, cwd=cwd, env=child_environment(FAULT_RANK=self.culprit))
        return text_of(done.stdout + done.stderr)


class FourNodes:
    """Network, UTS, IPC and mount namespaces, made by nodes.sh: an agent in each, two ranks below it. The culprit is on the third."""
    name, world, culprit, nodes = "nodes", 8, 5, 4

    def __init__(self, autolaunch):
        self.autolaunch = autolaunch
        self.holders = dict(word.split(":") for word in os.environ["FAULT_MACHINES"].split())  # name: process
        self.machines = list(self.holders)
        self.ports = iter(range(21000, 30000))
        self.lock = threading.Lock()

    def node_of(self, rank):
        return self.machines[rank // 2]

    def enter(self, machine):
        return ["nsenter", "-t", self.holders[machine], "-n", "-u", "-i", "-m", "-r", "--"]

    def start(self, fault, run_dir, cwd, prefix=(), prefixes={}):
        """The four agents; `prefix` before that of the culprit's node, `prefixes` before others' by machine."""
        with self.lock:
            port = next(self.ports)
        agents = []
        for number, machine in enumerate(self.machines):
            environment = child_environment(FAULT_RANK=self.culprit, FAULT_HOST=machine, AUTOLAUNCH_JOB_KEY=f"key of {run_dir}",
                                            GLOO_SOCKET_IFNAME="eth0")
            before = prefix if machine == self.node_of(self.culprit) else prefixes.get(machine, ())
            agents.append(subprocess.Popen(
                [*self.enter(machine), "sh", "-c", 'cd "$0" && exec "$@"', str(cwd), *before, self.autolaunch, "--nnodes", "4",
                 "--node-rank", str(number), "--master-addr", self.machines[0], "--master-port", str(port), "--rdzv-id",
                 f"job{port}", "-n", "2", "--log-dir", run_dir, "--shutdown-timeout", "1", "-r", "3"] + fault.command,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment))
        return agents

    def screens(self, agents):
        """What each agent said, once all have ended."""
        said = [None] * len(agents)

        def read(number):
            try:
                said[number] = text_of(agents[number].communicate(timeout=SECONDS)[0])
            except subprocess.TimeoutExpired:
                agents[number].kill()
                said[number] = text_of(agents[number].communicate()[0]) + f"\n(no end within {SECONDS} s)"

        readers = [threading.Thread(target=read, args=(number,)) for number in range(len(agents))]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        return said

    def run(self, fault, run_dir, cwd, prefix=()):
        return self.screens(self.start(fault, run_dir, cwd, prefix))[0]


def read_screen(screen):
    """(cause, rank, node) of the first failure that it names."""
    first = (re.search(r"✗ ranks? (\d+) could not be started: ([\w.-]+): ", screen) or
             re.search(r"✗ ranks? (\d+)[^\n]*?\((?:on )?([\w.-]+)", screen) or re.search(r"✗ ranks? (\d+)()", screen))
    named = re.search(r"\bcause: (\w+)", screen)
    return (named.group(1) if named else "nothing", int(first.group(1)) if first else None, first.group(2) if first else "")


def judge(place, fault, run_dir, screen):
    """What the screen named, and what is wrong with it; nothing: it is right."""
    cause, rank, node = got = read_screen(screen)
    world = fault.count or place.world
    if place.name == "nodes":
        world = place.world
    ranks = {"any": set(range(world)), "culprit": {place.culprit},
             "pair": {place.culprit, 0} if world == 2 else {place.culprit}}[fault.ranks]
    wrong = ""
    if cause != fault.cause or rank not in ranks:
        wrong = f"{cause}, rank {rank}"
    elif place.node_of(rank) not in (None, node):
        wrong = f"on {node}"
    elif fault.says not in screen:
        wrong = f"no word of \"{fault.says}\""
    else:
        wrong = certificates(run_dir, place.nodes)
    shutil.rmtree(run_dir, ignore_errors=True)
    return got, wrong
