"""Ways for PyTorch ranks to fail, over gloo."""
import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

name = sys.argv[1]
rank = int(os.environ["RANK"])
if name == "corrupt":
    path = os.path.join(os.environ["AUTOLAUNCH_RUN_DIR"], "x.pt")
    if rank == 1:
        torch.save({"w": torch.zeros(1000)}, path)
        os.truncate(path, 1000)
        torch.load(path)
    time.sleep(600)
if name == "allocate":
    if rank == 1:
        torch.zeros(1 << 50)
    time.sleep(600)
# Long enough for a busy machine to meet; the one that waits in vain waits no longer than it must.
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10 if name == "skips" else 60))
dist.all_reduce(torch.ones(1))
if name == "killed" and rank == 1:
    os.kill(os.getpid(), 9)
if name == "raises" and rank == 1:
    raise ValueError("bad shard")
if name == "skips" and rank == 1:
    time.sleep(600)
if name == "leaves" and rank == 1:
    sys.exit(0)
dist.all_reduce(torch.ones(1000))
time.sleep(600)
