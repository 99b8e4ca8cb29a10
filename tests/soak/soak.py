#!/usr/bin/env python3
"""Breaks a training job on the cluster of on_slurm.sh again and again, and judges whether it came back. scripts/soak starts it."""
import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import faults
from faults import FAULTS, LOST_AFTER, Place, on

RANKS_PER_NODE, NODES, SPARES = 2, 3, 1
BACK_WITHIN = 120  # seconds; Slurm's own part of a requeue is some 20 of them
STEP_LINE = re.compile(r"^step (\d+)/\d+  loss ([0-9.]+)", re.M)


class Job:
    """One batch job, which Slurm requeues when it ends with 75."""

    def __init__(self, work, disk):
        self.work, self.run_dir, self.checkpoints = work, disk / "run", disk / "checkpoints"
        self.disk, self.read_to, self.losses, self.wrong = disk, {}, {}, []
        self.newest = 0         # step
        self.newest_of = {}     # generation: its newest step
        (work / "text").write_text("".join(f"line {i % 7}: the quick brown fox jumps over the lazy dog\n" for i in range(400)))
        self.log = work / "batch.log"
        self.number = None
        self.waits_since = None  # a requeued job, on no node any more

    def spec(self, nodes, backend, checkpoints):
        return f"""trainer:
  command: [gpt]
  config: {{device: cpu, sample_bytes: 0}}
resource_management: {{ranks_per_node: {RANKS_PER_NODE * (1 if nodes > 1 else NODES)}, binding: none{
    f", nodes: {{min: {NODES}, max: {NODES}, spares: {SPARES}}}" if nodes > 1 else ""}}}
model: {{layers: 2, heads: 4, width: 64, context: 64}}
distributed: {{backend: {backend}}}
dataloader: {{path: "{self.work}/text", global_batch: 24}}
optimizer: {{lr: 0.001, min_lr: 0.001}}
step_scheduler: {{max_steps: 1000000, warmup_steps: 2, log_every: 1, checkpoint_every: 10, copy_every: 1}}
checkpoint: {{enabled: {"true" if checkpoints else "false"}, checkpoint_dir: "{self.checkpoints}", keep: 3, pass_over_unusable: true}}
slurm_config: {{requeue: {"true" if checkpoints else "false"}}}
rendezvous: {{lost_after: {LOST_AFTER}s, timeout: 60s}}
restart: {{max_restarts: 100000, grace_period: 2s, on: {{storage: {{budget: 100000, delay: 1s}}, network: {{budget: 100000, delay: 1s}}}}}}
"""

    def submit(self):
        (self.work / "train.yaml").write_text(self.spec(NODES + SPARES, "mpi", True))
        (self.work / "batch.sh").write_text(
            "#!/bin/bash\nexport OMP_NUM_THREADS=1\n"
            f"exec srun --no-kill --wait=0 autolaunch --log-dir {self.run_dir} -c {self.work}/train.yaml\n")
        self.number = on("head", "sbatch", "--parsable", f"-N{NODES + SPARES}", "--no-kill", "--requeue", "--open-mode=append",
                         "--exclusive", "-o", self.log, self.work / "batch.sh", check=True).strip()

    def state(self):
        found = re.search(r"JobState=(\S+)", on("head", "scontrol", "show", "job", "-o", self.number))
        return found.group(1) if found else "unknown"

    def reason(self):
        """Why it does not run, and which nodes could."""
        shown = on("head", "scontrol", "show", "job", self.number)
        (self.work / "job.log").write_text(shown)
        job = re.search(r"Reason=(\S+)", shown)
        return f"{job and job.group(1)}; nodes: {on('head', 'sinfo', '-h', '-N', '-o', '%N=%T').split()}"

    def hasten(self):
        """Slurm holds what it requeues for two minutes; an operator would not wait for as long. Some seconds are needed: else the end of
        the script that was requeued counts as the end of the one that starts, and what Slurm still has to say to a node that was dead as
        said to it."""
        shown = on("head", "scontrol", "show", "job", "-o", self.number)
        if "JobState=PENDING Reason=BeginTime" not in shown or " NodeList= " not in shown or not self.nodes_are_up():
            self.waits_since = None
        elif self.waits_since is None:
            self.waits_since = time.monotonic()
        elif time.monotonic() > self.waits_since + 5 and not faults.late_kill_may_come():
            on("head", "scontrol", "update", f"JobId={self.number}", "StartTime=now")
            self.waits_since = None

    @staticmethod
    def nodes_are_up():
        """Slurm drains a node where it could not end a step in time; its operator looks at it, and gives it back."""
        states = dict(line.split() for line in on("head", "sinfo", "-h", "-N", "-o", "%N %T").splitlines())
        for node, state in states.items():
            if state == "drained":
                on("head", "scontrol", "update", f"NodeName={node}", "State=RESUME")
        return all(state in ("idle", "mixed", "allocated") for state in states.values())

    def read(self):
        """What ranks 0 have printed since the last call."""
        for file in self.run_dir.glob("generation-*/rank-0/stdout"):
            generation = int(file.parts[-3].split("-")[1])
            with open(file, "rb") as opened:
                opened.seek(self.read_to.get(file, 0))
                text = opened.read()
            text = text[:text.rfind(b"\n") + 1]
            self.read_to[file] = self.read_to.get(file, 0) + len(text)
            for step, loss in STEP_LINE.findall(text.decode(errors="replace")):
                step = int(step)
                if self.losses.setdefault(step, loss) != loss:
                    self.wrong.append(f"step {step} of generation {generation} has loss {loss}, and had {self.losses[step]}")
                self.newest = max(self.newest, step)
                self.newest_of[generation] = max(self.newest_of.get(generation, 0), step)

    def events(self, name):
        """Pairs of the node rank whose file it is in, 0 for the head's, and the event."""
        found = []
        for file in self.run_dir.glob("events*.jsonl"):
            node = int(re.sub(r"\D", "", file.name) or 0)
            for line in file.read_text(errors="replace").splitlines():
                if f'"event":"{name}"' in line:
                    try:
                        found.append((node, json.loads(line)))
                    except ValueError:
                        self.wrong.append(f"{file.name} has a torn line: {line[:80]}")
        return found

    def place(self):
        """Of the newest generation, once all its ranks run; else None."""
        started = self.events("rank_started")
        newest = max((event["generation"] for _, event in started), default=-1)
        heads = [event["node"] for _, event in self.events("head_changed") if event["generation"] > self.newest_of_requeue()]
        head = heads[-1] if heads else self.name_of(0)
        # A head's own ranks are in the job's file, whichever node it is.
        node_of = {event["rank"]: self.name_of(node) if node else head for node, event in started if event["generation"] == newest}
        if len(node_of) < NODES * RANKS_PER_NODE:
            return None
        with_ranks = tuple(dict.fromkeys(node_of[rank] for rank in sorted(node_of)))
        return Place(head, with_ranks, self.disk, self.checkpoints)

    def name_of(self, node):
        """By its own plan; Slurm forgets which nodes the job had once one of them is gone."""
        return json.loads((self.run_dir / (f"plan.node-{node}.json" if node else "plan.json")).read_text())["hostname"]

    def newest_of_requeue(self):
        """The generation before the first of this requeue."""
        return max((event["generation"] - 1 for _, event in self.events("job_started")), default=-1)


class Soak:
    def __init__(self, options):
        self.options, self.draw = options, random.Random(options.seed)
        self.job = Job(options.work, options.disk)
        self.rows, self.failed = [], []
        self.kinds = [fault for fault in FAULTS if re.fullmatch(options.kinds, fault.name)]

    def wait(self, done, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.job.read()
            if done():
                return True
            if self.job.state() not in ("RUNNING", "PENDING", "COMPLETING", "REQUEUED", "CONFIGURING"):
                return False
            self.job.hasten()
            time.sleep(0.2)
        return False

    def one(self, number):
        fault = self.draw.choice(self.kinds)
        # At another moment of a step, a save or a restart each time.
        time.sleep(self.draw.uniform(0, 2))
        self.job.read()
        place = None
        while place is None and self.wait(lambda: True, 1):
            place = self.job.place()
        before, generation, began = self.job.newest, max(self.job.newest_of, default=-1), time.monotonic()
        if place is None:
            return self.give_up(number, fault, "nowhere", "no generation runs")
        hit, mend = fault.do(place, self.draw)
        mending = threading.Thread(target=mend or (lambda: None))
        mending.start()

        def is_back():
            newest = max((step for of, step in self.job.newest_of.items() if of > generation or not fault.ends), default=0)
            return newest > before + 1
        came_back = self.wait(is_back, BACK_WITHIN)
        took = time.monotonic() - began
        mending.join()
        if not came_back:
            return self.give_up(number, fault, hit, f"not back after {took:.0f} s; Slurm says {self.job.state()}, {self.job.reason()}")
        print(f"{number:4}  {fault.name:12} {hit:28} step {before}, back at it after {took:5.1f} s, "
              f"generation {max(self.job.newest_of)}", flush=True)
        self.rows.append((fault.name, took))
        return True

    def give_up(self, number, fault, hit, why):
        self.failed.append(f"{fault.name} ({hit}): {why}")
        print(f"{number:4}  {fault.name:12} {hit:28} {why}", flush=True)
        return False

    def compare_with_undisturbed(self):
        """The sums of ranks are taken in their order wherever the ranks are: one node, six ranks, nothing else."""
        spec = self.options.work / "calm.yaml"
        spec.write_text(self.job.spec(1, "mpi", False).replace("max_steps: 1000000", f"max_steps: {self.job.newest}"))
        calm = self.options.work / "calm"
        with open(self.options.work / "calm.log", "wb") as log:
            subprocess.run([self.options.autolaunch, "--log-dir", calm, "-c", spec], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                           check=False)
        text = (calm / "generation-0/rank-0/stdout").read_text(errors="replace")
        undisturbed = {int(step): loss for step, loss in STEP_LINE.findall(text)}
        other = [step for step in sorted(self.job.losses) if self.job.losses[step] != undisturbed.get(step)]
        if other:
            step = other[0]
            self.failed.append(f"{len(other)} of {len(self.job.losses)} losses differ from the undisturbed run's, first at step {step}: "
                               f"{self.job.losses[step]}, {undisturbed.get(step)}")
        return len(self.job.losses), len(undisturbed)

    def end(self):
        """An operator's end: the ranks save, and nobody requeues."""
        on("head", "scontrol", "update", f"JobId={self.job.number}", "Requeue=0")
        on("head", "scancel", self.job.number)
        end = time.monotonic() + 60
        while time.monotonic() < end and on("head", "squeue", "-h").strip():
            time.sleep(0.2)
        left = ""
        for _ in range(100):
            left = subprocess.run(["bash", faults.CLUSTER, "left"], stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout.strip()
            if not left:
                break
            time.sleep(0.1)
        if left:
            self.failed.append(f"left on nodes: {left}")

    def run(self):
        began, number = time.monotonic(), 0
        self.job.submit()
        # Before its first checkpoint a job that must be requeued ends with 68.
        published = lambda: any(".tmp" not in step.name for step in self.job.checkpoints.glob("step-*"))
        if not self.wait(lambda: self.job.newest >= 3 and published(), BACK_WITHIN):
            self.failed.append(f"the job did not begin: Slurm says {self.job.state()}")
        while not self.failed:
            over = time.monotonic() - began > 60 * self.options.minutes if self.options.minutes else number >= self.options.faults
            if over:
                break
            number += 1
            self.one(number)
        self.job.read()
        self.end()
        self.failed += self.job.wrong
        compared = self.compare_with_undisturbed() if self.job.losses else (0, 0)
        self.report(number, time.monotonic() - began, compared)

    def report(self, number, seconds, compared):
        print(f"\n| fault | times | back after, median (longest) |\n|---|---|---|")
        for fault in self.kinds:
            times = sorted(took for name, took in self.rows if name == fault.name)
            if times:
                print(f"| {fault.what} | {len(times)} | {times[len(times) // 2]:.1f} s ({times[-1]:.1f}) |")
        generations = max(self.job.newest_of, default=0)
        print(f"\n{len(self.rows)} of {number} faults in {seconds / 60:.1f} min, {generations} generations after the first, "
              f"step {self.job.newest}; {compared[0]} losses compared with an undisturbed run's")
        for why in self.failed:
            print(f"FAILED: {why}")


def main():
    parser = argparse.ArgumentParser(usage="scripts/soak [--build DIR] [--faults N | --minutes M] [--seed S] [--kinds REGEX] [--keep DIR]")
    parser.add_argument("--work", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--disk", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--autolaunch", default="autolaunch", help=argparse.SUPPRESS)
    parser.add_argument("--faults", type=int, default=12)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--kinds", default=".*")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    if options.kinds == "quick":
        options.kinds = "|".join(fault.name for fault in FAULTS if fault.quick)
    chosen = [fault for fault in FAULTS if re.fullmatch(options.kinds, fault.name)]
    if options.kinds == "list" or not chosen:
        for fault in FAULTS:
            print(f"{fault.name:12} {fault.what}{'' if not fault.quick else ' (quick)'}")
        sys.exit(0 if options.kinds == "list" else 64)
    print(f"soak: seed {options.seed}, {len(chosen)} kinds of fault", flush=True)
    soak = Soak(options)
    try:
        soak.run()
    finally:
        if options.keep:
            shutil.copytree(options.disk / "run", options.keep, dirs_exist_ok=True)
            for log in options.work.glob("*.log"):
                shutil.copy(log, options.keep)
            with open(options.keep / "slurm-logs.tar", "wb") as logs:
                subprocess.run(["bash", faults.CLUSTER, "on", "head", "tar", "-C", "/etc/slurm", "-cf", "-", "log"], stdin=subprocess.DEVNULL,
                               stdout=logs, check=False)
    sys.exit(1 if soak.failed else 0)


main()
