"""Trains over gloo with its loop in autolaunch.run(): python_recovery.py FOLDER STEPS [RANK:STEP | RANK:STEP:KIND]...

KIND: kill (SIGKILL; the default) or raise. Each happens once.
"""
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
import autolaunch

folder, steps = sys.argv[1], int(sys.argv[2])
saved = os.path.join(folder, "state.pt")
rank = int(os.environ["RANK"])
losses = {int(parts[1]): (int(parts[0]), (parts + ["kill"])[2]) for parts in (text.split(":") for text in sys.argv[3:])}
calls = 0


def happen(step):
    """Once: who is lost has left a file."""
    lost, kind = losses.get(step, (-1, ""))
    mark = os.path.join(folder, "happened-%d" % step)
    if rank != lost or os.path.exists(mark):
        return
    open(mark, "w").close()
    if kind == "raise":
        raise ValueError("shard 7 is truncated")
    os.kill(os.getpid(), signal.SIGKILL)


def loop():
    global calls
    calls += 1
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    # Without it DDP orders its buckets anew after the first step of each call, and sums in another order then.
    model = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    first = 1
    if os.path.exists(saved):
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1
    print("begins at step %d in call %d, generation %s, pid %d" % (
        first, calls, os.environ["AUTOLAUNCH_GENERATION"], os.getpid()), flush=True)
    dist.barrier()
    for step in range(first, steps + 1):
        happen(step)
        torch.manual_seed(1000 * step + rank)
        loss = model(torch.randn(8, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        autolaunch.report_step(step, loss=total.item(), total_steps=steps)
        if rank == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, saved + ".new")
            os.rename(saved + ".new", saved)
        time.sleep(float(os.environ.get("STEP_SECONDS", 0)))
    dist.barrier()
    print("ends with loss %r" % total.item(), flush=True)
    dist.destroy_process_group()
    return "done"


assert autolaunch.run(loop) == "done"
