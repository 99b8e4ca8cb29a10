"""Faults on a real Slurm of four nodes, each with two ranks: those that need one, and that it must not hide."""
import os
import subprocess
import time
from pathlib import Path

from corpus import HERE
from node_faults import SEQUENCE, SKEW, Table, eventually, started
from places import MEMORY, SECONDS

CLUSTER = os.environ.get("CLUSTER", "")
AT_ONCE = ["--no-kill", "--wait=3"]  # srun's: what a lost node is shall be autolaunch's to say


def cluster(*words):
    subprocess.run(["bash", CLUSTER, *words], check=True, stdin=subprocess.DEVNULL)


def on(host, *command, check=True):
    done = subprocess.run(["bash", CLUSTER, "on", host, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} on {host}: {done.stdout}{done.stderr}")
    return done.stdout


class Job:
    """A line `srun … autolaunch … PROGRAM`, typed on the head; or the same in a batch script."""

    def __init__(self, work, name, program, srun=(), autolaunch=(), batch=None, before=()):
        self.folder = work / name.replace(" ", "-").replace(",", "")
        self.folder.mkdir()
        self.run_dir, self.log = self.folder / "run", self.folder / "log"
        self.spec = self.folder / "train.yaml"
        self.spec.write_text(f"trainer:\n  command: {list(map(str, program))}\nresource_management: {{ranks_per_node: 2}}\n"
                             "restart: {max_restarts: 0, grace_period: 1s}\nrendezvous: {lost_after: 3s, timeout: 20s}\n")
        line = ["srun", "-N4", *AT_ONCE, *srun, *before, "autolaunch", "--log-dir", self.run_dir, "-c", self.spec, *autolaunch]
        self.process = self.number = None
        if batch is None:
            with self.log.open("wb") as log:
                self.process = subprocess.Popen(["bash", CLUSTER, "on", "head", "timeout", "-k", "5", str(SECONDS), *map(str, line)],
                                                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
        else:
            script = self.folder / "batch.sh"
            script.write_text("#!/bin/bash\nexec " + " ".join(f"'{word}'" for word in line) + "\n")
            self.number = on("head", "sbatch", "--parsable", "-N4", "-o", str(self.log), *batch, str(script)).strip()

    def ready(self):
        eventually("the start of all ranks", lambda: started(self.run_dir, 8))
        return self

    def screen(self):
        if self.process:
            self.process.wait()
        else:
            eventually("the job's last words", lambda: self.log.exists() and "\nfailed" in self.said() or "\nstopped" in self.said(),
                       seconds=150)
        return self.said()

    def said(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""


def reboot(host):
    subprocess.run(["bash", CLUSTER, "kill", host], stdin=subprocess.DEVNULL, capture_output=True)
    cluster("boot", host)
    eventually(f"the return of {host}", lambda: subprocess.run(
        ["bash", CLUSTER, "on", "head", "timeout", "10", "srun", "-w", host, "true"], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0)


def of_ranks(work, table):
    """Programs that fail, on Slurm."""
    faults = work / "faults"
    subprocess.run(["g++", "-std=c++17", "-O0", "-w", "-pthread", "-o", faults, HERE / "faults.cpp"], check=True)
    sleeper = ["sleep", "600"]
    for name, cause in (("segv", "crash"), ("throw", "program_error"), ("full_disk", "storage")):
        if table.wants("slurm " + name):
            job = Job(work, name, ["env", "FAULT_RANK=5", faults, name])
            table.add("slurm " + name, cause, "rank 5 (node3)", job.screen())
    if table.wants("slurm rank killed"):
        job = Job(work, "rank killed", ["env", "FAULT_RANK=99", faults, "none"]).ready()
        on("node3", "pkill", "-KILL", "-o", "-x", "faults")
        table.add("slurm rank killed", "killed", "rank 4 (node3)", job.screen())
    if table.wants("slurm memory of a control group"):
        group = f"/sys/fs/cgroup/memory/autolaunch-fault-{os.getpid()}"
        inside = f"[ $SLURMD_NODENAME != node3 ] || echo $$ >{group}/cgroup.procs; exec \"$@\""
        os.mkdir(group)
        Path(group, "memory.limit_in_bytes").write_text(str(MEMORY))
        job = Job(work, "memory", ["env", "FAULT_RANK=5", faults, "eat_memory"], before=["sh", "-c", inside, "sh"])
        table.add("slurm memory of a control group", "out_of_memory", "rank 5 (node3)", job.screen())
        eventually("the end of the control group", lambda: not Path(group, "cgroup.procs").read_text())
        os.rmdir(group)
    if table.wants("slurm program missing on a node"):
        for host in ("node1", "node2", "node4"):
            on(host, "cp", "/bin/sleep", "/run/only-here")
        table.add("slurm program missing on a node", "cannot_start", "rank 4 (node3)", Job(work, "missing", ["/run/only-here", "600"]).screen())
    for first, second, node in ((5, 2, "node3"), (2, 5, "node2")):
        name = f"slurm {node} fails first, node2's clock is late"
        if table.wants(name):
            cluster("clock", "node2", "+" + SKEW)
            job = Job(work, name, ["sh", "-c", SEQUENCE.format(first=first, second=second)])
            table.add(name, "program_error", f"rank {first} ({node})", job.screen())
            reboot("node2")
    return sleeper


def of_nodes(work, table, sleeper):
    """What breaks on a node."""
    kill = lambda host, signal, name: on(host, "pkill", "-o", "-" + signal, "-x", name)

    def kill_both(host):
        for signal in ("STOP", "KILL"):
            for name in ("autolaunch-keep", "autolaunch"):
                kill(host, signal, name)

    faults = {
        "slurm agent killed": ("node2", lambda: kill("node2", "KILL", "autolaunch"), ""),
        "slurm agent stopped": ("node2", lambda: kill("node2", "STOP", "autolaunch"), ""),
        "slurm keeper killed": ("node2", lambda: kill("node2", "KILL", "autolaunch-keep"), ""),
        "slurm agent and keeper killed": ("node2", lambda: kill_both("node2"), ""),
        "slurm head's agent killed": ("the head", lambda: kill("node1", "KILL", "autolaunch"), ""),
        "slurm slurmstepd killed": ("node3", lambda: kill("node3", "KILL", "slurmstepd"), "node3"),
        "slurm network cut": ("node3", lambda: cluster("cut", "node3"), ""),
        "slurm power cut": ("node4", lambda: cluster("kill", "node4"), "node4"),
    }
    for name, (who, does, broken) in faults.items():
        if not table.wants(name):
            continue
        job = Job(work, name, sleeper).ready()
        does()
        if name == "slurm network cut":
            time.sleep(8)
            cluster("heal", "node3")
        table.add(name, "agent_killed" if name == "slurm keeper killed" else "node_lost", who, job.screen())
        if broken:
            reboot(broken)
    if table.wants("slurm names gone"):
        on("node3", "mount", "--bind", "/dev/null", "/etc/hosts")
        table.add("slurm names gone", "", "", Job(work, "names", sleeper).screen(), says="node3")
        on("node3", "umount", "/etc/hosts")
    if table.wants("slurm no way to the head"):
        address = on("node3", "getent", "ahostsv4", "node1").split()[0]
        on("node3", "ip", "route", "add", "unreachable", address)
        on("node3", "sysctl", "-q", "-w", "net.ipv6.conf.all.disable_ipv6=1", check=False)
        table.add("slurm no way to the head", "", "", Job(work, "way", sleeper).screen(), says="node3")
        on("node3", "ip", "route", "del", "unreachable", address)
        reboot("node3")


def of_slurm(work, table, sleeper):
    """How Slurm and its users end jobs."""
    if table.wants("slurm cancelled"):
        job = Job(work, "cancelled", sleeper, batch=[]).ready()
        on("head", "scancel", job.number)
        table.add("slurm cancelled", "cancelled", "", job.screen())
    if table.wants("slurm requeued by an operator"):
        job = Job(work, "requeued", sleeper, batch=["--requeue"]).ready()
        on("head", "scontrol", "requeue", job.number)
        # Slurm shows the same of a preemption without GraceTime: it is told as possible.
        table.add("slurm requeued by an operator", "preempted", "", job.screen())
        on("head", "scancel", job.number)
    if table.wants("slurm preempted"):
        job = Job(work, "preempted", sleeper, batch=["--exclusive", "-p", "low", "--requeue"]).ready()
        other = on("head", "sbatch", "--parsable", "-N4", "--exclusive", "-p", "first", "-o", "/dev/null", "--wrap", "sleep 5").strip()
        table.add("slurm preempted", "preempted", "", job.screen())
        on("head", "scancel", job.number, other)
    if table.wants("slurm time limit"):
        job = Job(work, "limit", sleeper, batch=["--time=1"]).ready()
        table.add("slurm time limit", "time_limit", "", job.screen())


def run(options):
    table = Table(options)
    work = Path(os.environ["TMPDIR"]) / "faults"
    work.mkdir()
    sleeper = of_ranks(work, table)
    of_nodes(work, table, sleeper)
    of_slurm(work, table, sleeper)
    return table.rows
