#!/usr/bin/env python3
"""Fits a small network to a known function with PyTorch's DistributedDataParallel.

Nothing in here knows who started it: torchrun and autolaunch set the same environment. Run again with the same
--checkpoint, it goes on where the file says.
"""
import argparse
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CANNOT_RESUME = 74


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64, help="samples per rank and step")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--checkpoint", default="", help="file to resume from and to save to")
    parser.add_argument("--checkpoint-every", type=int, default=50)
    parser.add_argument("--pass-over-unusable", action="store_true",
                        help="set a checkpoint aside that cannot be read, and start anew")
    return parser.parse_args()


def make_batch(step, rank, size, device):
    """The batch is drawn from its step and rank, so that a resumed run sees what it would have seen."""
    generator = torch.Generator().manual_seed(1_000_003 * step + rank)
    inputs = torch.randn(size, 8, generator=generator)
    targets = torch.sin(inputs.sum(dim=1, keepdim=True)) + inputs[:, :1] ** 2
    return inputs.to(device), targets.to(device)


def save(path, step, model, optimizer):
    """Written beside the old file and renamed, so that a crash leaves one of them whole."""
    state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)


def load(path, device, pass_over):
    """What was saved, or nothing. A file that is there and cannot be read is not nothing: the script ends with 74, which
    tells autolaunch that a restart would find the same file. (For torchrun it is a failure as any other.)"""
    try:
        return torch.load(path, map_location=device)
    except FileNotFoundError:
        return None
    except Exception as error:
        print(f"cannot go on from {path}: {error!r}", file=sys.stderr, flush=True)
        if not pass_over:
            sys.exit(CANNOT_RESUME)
        return None


def loaded_everywhere(state, device):
    """Whether all ranks have it: they go on from one step, or all start anew."""
    found = torch.tensor([state is not None], dtype=torch.int32, device=device)
    dist.all_reduce(found, op=dist.ReduceOp.MIN)
    return bool(found.item())


def set_aside(path):
    """So that the next save does not replace what could not be read."""
    if os.path.exists(path):
        kept = f"{path}.unread-{time.time_ns()}"
        os.replace(path, kept)
        print(f"starting anew; {path} is kept as {kept}", file=sys.stderr, flush=True)


def main():
    arguments = parse_arguments()
    local_rank = int(os.environ["LOCAL_RANK"])
    use_cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if use_cuda else "gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", local_rank) if use_cuda else torch.device("cpu")
    if use_cuda:
        torch.cuda.set_device(device)

    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1)).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=arguments.lr)
    first_step = 1
    state = load(arguments.checkpoint, device, arguments.pass_over_unusable) if arguments.checkpoint else None
    if arguments.checkpoint and not loaded_everywhere(state, device):
        state = None
        if rank == 0:
            set_aside(arguments.checkpoint)
    if state:
        network.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first_step = state["step"] + 1
    model = DistributedDataParallel(network, device_ids=[local_rank] if use_cuda else None)
    print(f"rank {rank} of {world_size} on {device}: from step {first_step}", flush=True)

    for step in range(first_step, arguments.steps + 1):
        inputs, targets = make_batch(step, rank, arguments.batch, device)
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % arguments.checkpoint_every == 0 or step == arguments.steps:
            average = loss.detach().clone()
            dist.all_reduce(average)
            if rank == 0:
                print(f"step {step}/{arguments.steps} world {world_size} loss {average.item() / world_size:.4f}", flush=True)
                if arguments.checkpoint:
                    save(arguments.checkpoint, step, network, optimizer)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
