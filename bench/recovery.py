#!/usr/bin/env python3
"""How long a job takes to come back after a rank is killed: in place, restarted on the same agent, and under torchrun.

    bench/recovery.py --build build/release --rounds 9 [--python venv/bin/python]

examples/gpt (2 ranks, copies in memory at each step) loses rank 1 by SIGKILL at step 30: once with its training loop in
Session::run(), so that rank 0 goes on in its process, once without, so that all ranks are started anew. With --python, a
script that trains over torch.distributed's gloo, saves at each step and loses rank 1 the same way, under autolaunch and
under that Python's torchrun --max-restarts, one after the other in each round.

    bench/recovery.py --build build/release --warm [--preload venv/lib/python3/site-packages/torch/lib/libtorch_cpu.so]

measures restart.warm_processes instead: examples/gpt, whose rank 1 is killed from outside once it trains and, where it has
some, the spares wait; with --preload the same program with that library (LD_PRELOAD), which stands for a trainer that is
linked with it.

A job that does not come back is counted and shown on stderr. Seconds from the rank's death to the slowest rank's first step after it, and to the moment at which no other rank of the
old generation runs any more or, in place, has left it. Median, and lowest to highest, of the rounds.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime

STEP = 30

SPEC = """
trainer:
  command: ["{gpt}"]
  config: {{device: cpu, sample_bytes: 0, in_place: {in_place}, fail: {{rank: 1, step: {step}, signal: SIGKILL}}}}
resource_management: {{ranks_per_node: 2}}
model: {{layers: 2, heads: 4, width: 64, context: 64}}
dataloader: {{path: "{text}", global_batch: 8}}
step_scheduler: {{max_steps: {last}, log_every: 1000, checkpoint_every: 1000, copy_every: 1}}
checkpoint: {{enabled: true}}
restart: {{max_restarts: 1}}
"""

WARM_SPEC = """
trainer:
  command: ["{gpt}"]
  env: {{{env}}}
  config: {{device: cpu, sample_bytes: 0, in_place: {in_place}}}
resource_management: {{ranks_per_node: 2}}
model: {{layers: 2, heads: 4, width: 64, context: 64}}
dataloader: {{path: "{text}", global_batch: 8}}
step_scheduler: {{max_steps: 1000000, log_every: 1000000, checkpoint_every: 1000000, copy_every: 1}}
checkpoint: {{enabled: true}}
restart: {{max_restarts: 1, warm_processes: {warm}}}
"""

SCRIPT = '''
import os, signal, time
import torch, torch.distributed as dist
out, step_to_die = os.environ["BENCH_OUT"], int(os.environ["BENCH_STEP"])
rank, saved = int(os.environ["RANK"]), os.path.join(out, "state.pt")

def train():
    start = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    # torchrun's agent keeps one store over restarts, in which gloo finds the addresses of ranks that were killed.
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    dist.init_process_group("gloo", store=dist.PrefixStore("start-%d" % start, store), rank=rank,
                            world_size=int(os.environ["WORLD_SIZE"]))
    model = torch.nn.Linear(256, 256)
    optimizer = torch.optim.AdamW(model.parameters())
    first = 1
    if os.path.exists(saved):
        state = torch.load(saved)
        model.load_state_dict(state["model"]), optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1
    for step in range(first, step_to_die + 5):
        if start == 0 and rank == 1 and step == step_to_die:
            open(os.path.join(out, "died"), "w").write(repr(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        model(torch.randn(64, 256)).square().mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step(), optimizer.zero_grad()
        if start == 1 and step == first:
            open(os.path.join(out, "step-%d" % rank), "w").write(repr(time.time()))
        if rank == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, saved + ".new")
            os.rename(saved + ".new", saved)
    dist.barrier()

if os.environ.get("BENCH_IN_PLACE"):
    import autolaunch
    autolaunch.run(train)
else:
    train()
os._exit(0)  # a teardown that fails is not what is measured
'''


def run(command, **environment):
    done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1", **environment}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout[-3000:]}")


def seconds(event):
    return datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()


def gpt_round(build, in_place):
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "text")
        with open(text, "w") as file:
            file.write("the quick brown fox jumps over the lazy dog\n" * 400)
        spec, runs = os.path.join(folder, "train.yaml"), os.path.join(folder, "run")
        with open(spec, "w") as file:
            file.write(SPEC.format(gpt=f"{build}/examples/gpt/gpt", text=text, step=STEP, last=STEP + 5,
                                   in_place=str(in_place).lower()))
        run([f"{build}/launcher/autolaunch", "--log-dir", runs, "-c", spec])
        with open(os.path.join(runs, "events.jsonl")) as file:
            events = [json.loads(line) for line in file]
    died = min(seconds(e) for e in events if e["event"] == "rank_exited" and e.get("signal") == 9)
    ended = min(seconds(e) for e in events if e["event"] == "generation_failed")
    stayed = sum(e.get("stayed", False) for e in events)
    if stayed != int(in_place):
        raise RuntimeError(f"{stayed} ranks stayed in their processes, expected {int(in_place)}")
    steps = [e for e in events if e["event"] == "step" and e["generation"] == 1 and e["step"] == STEP]
    if len(steps) != 2:
        raise RuntimeError(f"step {STEP} was done by {len(steps)} ranks after the restart")
    return ended - died, max(seconds(e) for e in steps) - died


def events_of(path):
    try:
        with open(path) as file:
            return [json.loads(line) for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []


def wait_for(path, done, what):
    deadline = time.time() + 60
    while time.time() < deadline:
        events = events_of(path)
        if done(events):
            return events
        time.sleep(0.05)
    raise RuntimeError(f"no {what} within 60 s")


def warm_round(build, in_place, warm, preload):
    with tempfile.TemporaryDirectory() as folder:
        text, spec, runs = (os.path.join(folder, name) for name in ("text", "train.yaml", "run"))
        with open(text, "w") as file:
            file.write("the quick brown fox jumps over the lazy dog\n" * 400)
        with open(spec, "w") as file:
            file.write(WARM_SPEC.format(gpt=f"{build}/examples/gpt/gpt", text=text, in_place=str(in_place).lower(),
                                        warm=str(warm).lower(), env=f'LD_PRELOAD: "{preload}"' if preload else ""))
        job = subprocess.Popen([f"{build}/launcher/autolaunch", "--log-dir", runs, "-c", spec], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        try:
            path = os.path.join(runs, "events.jsonl")
            of = lambda events, name: [e for e in events if e["event"] == name]
            events = wait_for(path, lambda e: any(s["step"] >= STEP for s in of(e, "step")) and
                              len(of(e, "spare_ready")) == (2 if warm else 0), "training, with spares")
            victim = [e["pid"] for e in of(events, "rank_started") if e["rank"] == 1][0]
            died = time.time()
            os.kill(victim, signal.SIGKILL)
            first = lambda events: {e["rank"]: seconds(e) for e in reversed(of(events, "step")) if e["generation"] == 1}
            events = wait_for(path, lambda e: len(first(e)) == 2, "step of the next generation")
        finally:
            job.terminate()
            job.wait(timeout=60)
    spares = [e["rank"] for e in of(events, "rank_started") if e.get("spare")]
    if sorted(spares) != ([] if not warm else [1] if in_place else [0, 1]):
        raise RuntimeError(f"ranks {spares} were spares")
    return min(seconds(e) for e in of(events, "generation_failed")) - died, max(first(events).values()) - died


def torch_round(launcher, **environment):
    with tempfile.TemporaryDirectory() as out:
        script = os.path.join(out, "train.py")
        with open(script, "w") as file:
            file.write(SCRIPT)
        run(launcher + [script], BENCH_OUT=out, BENCH_STEP=str(STEP), **environment)
        died = float(open(os.path.join(out, "died")).read())
        return None, max(float(open(os.path.join(out, f"step-{rank}")).read()) for rank in range(2)) - died


def of(values):
    values = [value for value in values if value is not None]
    if not values:
        return "-"
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--python", help="one with PyTorch and its torchrun")
    parser.add_argument("--only", default="", help="ways whose names contain it")
    parser.add_argument("--warm", action="store_true", help="with and without restart.warm_processes")
    parser.add_argument("--preload", help="with --warm: a library that the trainer is loaded with, too")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    ways = {"gpt, in place": lambda: gpt_round(build, True), "gpt, all started anew": lambda: gpt_round(build, False)}
    if options.warm:
        ways = {f"{name}, {'in place' if in_place else 'all started anew'}{', warm processes' if warm else ''}":
                lambda preload=preload, in_place=in_place, warm=warm: warm_round(build, in_place, warm, preload)
                for name, preload in (("gpt", None), (f"gpt with {os.path.basename(options.preload or '')}", options.preload))
                if name == "gpt" or preload for in_place in (True, False) for warm in (False, True)}
    elif options.python:
        python, bin_folder = os.path.abspath(options.python), os.path.dirname(os.path.abspath(options.python))
        common = ["--nproc_per_node", "2", "--max_restarts", "1"]
        ours = tempfile.mkdtemp()
        launch = lambda *more, **environment: torch_round(
            [f"{build}/launcher/autolaunch", *common, *more, "--log-dir", tempfile.mkdtemp(dir=ours), python], **environment)
        ways["torch script, autolaunch"] = launch
        preload = "--preload=torch,torch.distributed,torch._dynamo"  # the last is imported by the first optimizer
        ways["torch script, autolaunch --preload"] = lambda: launch(preload)
        ways["torch script, autolaunch, in place"] = lambda: launch(BENCH_IN_PLACE="yes")
        ways["torch script, autolaunch --preload, in place"] = lambda: launch(preload, BENCH_IN_PLACE="yes")
        ways["torch script, torchrun"] = lambda: torch_round([os.path.join(bin_folder, "torchrun"), "--standalone", *common])
    ways = {name: once for name, once in ways.items() if options.only in name}
    measured = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, once in ways.items():
            try:
                measured[name].append(once())
            except RuntimeError as error:  # a job that does not come back is a result
                print(f"{name}: {error}", file=sys.stderr)
    print("| seconds from death | came back | the generation is over | the first step is done |")
    print("|---|---|---|---|")
    for name, times in measured.items():
        print(f"| {name} | {len(times)} of {options.rounds} | {of([time[0] for time in times])} | "
              f"{of([time[1] for time in times])} |")


if __name__ == "__main__":
    main()
