"""Ways for PyTorch ranks to fail, over gloo."""
import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

name = sys.argv[1]
rank = int(os.environ["RANK"])
culprit = int(os.environ.get("FAULT_RANK", "1"))
if name == "corrupt":
    path = os.path.join(os.environ["AUTOLAUNCH_RUN_DIR"], "x.pt")
    if rank == culprit:
        torch.save({"w": torch.zeros(1000)}, path)
        os.truncate(path, 1000)
        torch.load(path)
    time.sleep(600)
if name == "allocate":
    if rank == culprit:
        torch.zeros(1 << 50)
    time.sleep(600)
if name == "full_disk":
    if rank == culprit:
        with open("/dev/full", "wb") as file:
            torch.save({"w": torch.zeros(1000)}, file)
    time.sleep(600)
if name == "spawned":
    if rank == culprit:
        import ctypes
        import torch.multiprocessing as mp
        mp.start_processes(ctypes.string_at, nprocs=1, start_method="fork")  # of address 0
    time.sleep(600)
if name in ("loader_killed", "loader_raises"):
    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            if name == "loader_raises":
                raise ValueError("bad shard")
            os.kill(os.getpid(), 9)

    if rank == culprit:
        next(iter(torch.utils.data.DataLoader(Data(), num_workers=1)))
    time.sleep(600)
# Long enough for a busy machine to meet; the one that waits in vain waits no longer than it must.
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10 if name == "skips" else 60))
dist.all_reduce(torch.ones(1))
if name == "killed" and rank == culprit:
    os.kill(os.getpid(), 9)
if name == "raises" and rank == culprit:
    raise ValueError("bad shard")
if name == "skips" and rank == culprit:
    time.sleep(600)
if name == "leaves" and rank == culprit:
    sys.exit(0)
if name == "shapes" and rank == culprit:
    dist.all_reduce(torch.ones(10))
dist.all_reduce(torch.ones(1000))
time.sleep(600)
