# A PyTorch script that trains with DistributedDataParallel, and stands still at step 25 in the way that it is told.
import os
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

import autolaunch

mode, pipe = sys.argv[1:3]
STANDS_AT = 25


def read(path):
    with open(path) as file:
        file.read()


class Shards(Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        if mode == "loader" and index >= STANDS_AT and os.environ["RANK"] == "1":
            read(pipe)
        return torch.ones(4)


def stand(second):
    if mode == "reads":
        read(pipe)
    elif mode == "locks":
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    elif mode == "mismatch":
        dist.broadcast(torch.zeros(3), 1)
    elif mode == "deadlock":
        dist.all_reduce(torch.ones(1), group=second)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    second = dist.new_group([0, 1, 2])
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for step, batch in enumerate(DataLoader(Shards(), num_workers=1 if mode == "loader" else 0)):
        if step == STANDS_AT and dist.get_rank() == 1:
            stand(second)
        loss = model(batch).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.05)
        autolaunch.report_step(step)


main()
