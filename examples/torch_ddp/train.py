#!/usr/bin/env python3
"""Fits a small network to a known function with PyTorch's DistributedDataParallel.

Nothing in here knows who started it: torchrun and autolaunch set the same environment. Run again with the same
--checkpoint, it goes on where the file says.
"""
import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64, help="samples per rank and step")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--checkpoint", default="", help="file to resume from and to save to")
    parser.add_argument("--checkpoint-every", type=int, default=50)
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


def load(path, device):
    """What was saved, or nothing. A file that is there and cannot be read is an error, and not nothing."""
    try:
        return torch.load(path, map_location=device)
    except FileNotFoundError:
        return None


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
    state = load(arguments.checkpoint, device) if arguments.checkpoint else None
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
