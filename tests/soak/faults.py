"""What is broken in a soak. Each fault knows how it is done, what it needs of the job, and what puts the machine right again."""
import os
import random
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

CLUSTER = os.environ.get("CLUSTER", "")
LOST_AFTER = 4  # rendezvous.lost_after of the job, in seconds


def cluster(*words):
    subprocess.run(["bash", CLUSTER, *words], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def on(host, *command, check=False, seconds=60):
    done = subprocess.run(["bash", CLUSTER, "on", host, *map(str, command)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=seconds)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} on {host}: {done.stdout}{done.stderr}")
    return done.stdout


def signal(host, name, program, which=()):
    """To processes of that program there: pkill's -o (the oldest), -n (the newest) or all. False: there are none."""
    return subprocess.run(["bash", CLUSTER, "on", host, "pkill", f"-{name}", *which, "-x", program], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL).returncode == 0


def kills_heard(host):
    """How often Slurm has told that node's slurmd to kill a step that is not there."""
    return on("head", "cat", f"/etc/slurm/log/slurmd.{host}").count("kill for nonexistent StepId")


LATE_KILL_WITHIN = 40  # seconds; 28 were seen
booted = {}            # host: when, and kills_heard() before


def late_kill_may_come():
    """Slurm (22.05) kills the steps of a job on a node that it takes for dead, and where that is not heard, again once the node is back: by
    the number of the step alone, which is the same after a requeue, and the batch script then counts as FAILED. The two minutes that Slurm
    holds what it requeues keep them apart."""
    return any(time.monotonic() < since + LATE_KILL_WITHIN and kills_heard(host) <= before for host, (since, before) in booted.items())


def boot(host):
    """Once Slurm knows that it was gone: a node that is back before that says that it has no such step, and srun ends the job's
    step for it, --no-kill or not (22.05: "Aborting, io error and missing step on node"). And some seconds after it has settled what becomes
    of the job, for no machine boots in half of one: Slurm looked at a job that it was still requeueing when the node answered again, found
    it "never runnable", and held it (BadConstraints). On a busy machine the requeue took it more than three seconds."""
    heard = kills_heard(host)
    subprocess.run(["bash", CLUSTER, "kill", host], stdin=subprocess.DEVNULL, capture_output=True)
    end = time.monotonic() + 60
    while "down" not in on("head", "sinfo", "-h", "-N", "-n", host, "-o", "%T") and time.monotonic() < end:
        time.sleep(0.5)
    settled = 0
    while settled < 5 and time.monotonic() < end:
        time.sleep(1)
        settled = settled + 1 if on("head", "squeue", "-h", "-o", "%T %r").strip() in ("RUNNING None", "PENDING BeginTime") else 0
    cluster("boot", host)
    booted[host] = time.monotonic(), heard


@dataclass(frozen=True)
class Place:
    """Where the job is: its nodes, the head first, and those of them that have ranks. All are names."""
    head: str
    with_ranks: tuple
    disk: Path
    checkpoints: Path

    def node(self, draw: random.Random):
        """One with ranks that is not the head's."""
        return draw.choice([node for node in self.with_ranks if node != self.head])


@dataclass(frozen=True)
class Fault:
    name: str
    what: str
    do: Callable  # (place, draw) -> what was hit, in words, and what puts the machine right (a function, or nothing)
    quick: bool = True  # no node has to be started again, and the job stays in its allocation
    ends: bool = True   # the generation is over; else the job goes on as if nothing were


def kill_rank(place, draw):
    node = draw.choice(place.with_ranks)
    signal(node, "KILL", "gpt", [draw.choice(["-o", "-n"])])
    return node, None


def kill_two_ranks(place, draw):
    nodes = draw.sample(place.with_ranks, 2)
    for node in nodes:
        signal(node, "KILL", "gpt", ["-o"])
    return " and ".join(nodes), None


def crash_rank(place, draw):
    node = draw.choice(place.with_ranks)
    signal(node, "SEGV", "gpt", ["-o"])
    return node, None


def pause_rank(place, draw):
    node = draw.choice(place.with_ranks)
    signal(node, "STOP", "gpt", ["-o"])
    time.sleep(2)
    signal(node, "CONT", "gpt")
    return f"{node}, 2 s", None


def pause_agent(place, draw):
    node = draw.choice(place.with_ranks)
    signal(node, "STOP", "autolaunch", ["-o"])
    time.sleep(LOST_AFTER / 3)
    signal(node, "CONT", "autolaunch")
    return f"{node}, {LOST_AFTER / 3:.1f} s", None


def hang_agent(place, draw):
    node = place.node(draw)
    signal(node, "STOP", "autolaunch", ["-o"])
    return node, None


def kill_agent(place, draw):
    node = place.node(draw)
    signal(node, "KILL", "autolaunch", ["-o"])
    return node, None


def kill_two_agents(place, draw):
    """With them go all copies in memory of a node's state: what follows begins from the disk."""
    nodes = draw.sample([node for node in place.with_ranks if node != place.head], 2)
    for node in nodes:
        signal(node, "KILL", "autolaunch", ["-o"])
    return " and ".join(nodes), None


def kill_keeper(place, draw):
    node = place.node(draw)
    signal(node, "KILL", "autolaunch-keep", ["-o"])
    return node, None


def kill_head(place, draw):
    signal(place.head, "KILL", "autolaunch", ["-o"])
    return place.head, None


def kill_slurmstepd(place, draw):
    node = place.node(draw)
    signal(node, "KILL", "slurmstepd")
    return node, lambda: boot(node)  # Slurm leaves the dead daemon's socket


def cut_shortly(place, draw):
    node = draw.choice(place.with_ranks)
    cluster("cut", node)
    time.sleep(LOST_AFTER / 3)
    cluster("heal", node)
    return f"{node}, {LOST_AFTER / 3:.1f} s", None


def cut_off(place, draw):
    node = place.node(draw)
    cluster("cut", node)
    time.sleep(LOST_AFTER + 3)
    cluster("heal", node)
    return f"{node}, {LOST_AFTER + 3} s", None


def cut_power(place, draw):
    node = place.node(draw)
    cluster("kill", node)
    return node, lambda: boot(node)


def cut_power_of_head(place, draw):
    cluster("kill", place.head)
    return place.head, lambda: boot(place.head)


def fill_disk(place, draw):
    fill = place.disk / "somebody's"
    room = os.statvfs(place.disk)
    try:
        with open(fill, "wb", buffering=0) as file:
            for _ in range(room.f_bavail):
                file.write(bytes(room.f_frsize))
    except OSError:
        pass
    time.sleep(3)
    fill.unlink(missing_ok=True)
    return "3 s", None


def spoil_checkpoint(place, draw):
    """A block of the newest one is overwritten, and then a rank is killed, so that somebody reads it."""
    steps = sorted(step for step in place.checkpoints.glob("step-*") if ".tmp" not in step.name)
    files = sorted(file for file in steps[-1].glob("*.safetensors") if file.stat().st_size > 64) if steps else []
    if files:
        file = draw.choice(files)
        with open(file, "r+b") as opened:
            opened.seek(file.stat().st_size - 64)
            opened.write(b"\xa5" * 64)
    for node in place.with_ranks:
        signal(node, "KILL", "gpt")
    return f"{files and file.relative_to(place.checkpoints)}", None


FAULTS = (
    Fault("rank", "a rank is killed", kill_rank),
    Fault("two-ranks", "ranks of two nodes are killed at once", kill_two_ranks),
    Fault("crash", "a rank crashes", crash_rank),
    Fault("pause-rank", "a rank is stopped, and goes on", pause_rank, ends=False),
    Fault("pause-agent", "an agent is stopped, and goes on in time", pause_agent, ends=False),
    Fault("short-cut", "a node's link is down for less than lost_after", cut_shortly, ends=False),
    Fault("checkpoint", "the newest checkpoint is damaged, and all ranks are killed", spoil_checkpoint),
    Fault("disk", "the job's disk is full for 3 s", fill_disk, ends=False),
    Fault("agent", "an agent is killed", kill_agent),
    Fault("keeper", "srun's own task on a node is killed", kill_keeper),
    Fault("cut", "a node is cut off for longer than lost_after", cut_off),
    Fault("hang-agent", "an agent is stopped for good", hang_agent),
    Fault("two-agents", "two agents are killed, and the copies in memory with them", kill_two_agents, quick=False),
    Fault("head", "the head is killed", kill_head, quick=False),
    Fault("slurmstepd", "slurmstepd is killed", kill_slurmstepd, quick=False),
    Fault("power", "a node loses its power", cut_power, quick=False),
    Fault("head-power", "the head's node loses its power", cut_power_of_head, quick=False),
)
