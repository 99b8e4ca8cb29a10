"""The model of examples/gpt in PyTorch, trained as bench/fsdp_step_perf.cpp trains ours: one rank of a gloo job.

    python3 fsdp_step_peer.py CONFIG.json

RANK and WORLD_SIZE say which rank. Takes fsdp_step_perf's commands, and answers them alike. Contestants: "fsdp2" is
torch.distributed.fsdp.fully_shard of each block and of the model, "ddp" DistributedDataParallel, "local" no communication at
all, each rank by itself.
"""
import ctypes
import gc
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

VOCABULARY = 256


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(rows, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, model):
        super().__init__()
        width = model["width"]
        self.token, self.position = nn.Embedding(VOCABULARY, width), nn.Embedding(model["context"], width)
        self.blocks = nn.ModuleList(Block(width, model["heads"]) for _ in range(model["layers"]))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def parameters_in_our_order(model):
    """As gpt::unit_shapes() lists them, and whether PyTorch keeps them transposed."""
    yield model.token.weight, False
    yield model.position.weight, False
    for block in model.blocks:
        for layer in (block.norm1, block.qkv, block.out, block.norm2, block.up, block.down):
            yield layer.weight, isinstance(layer, nn.Linear)
            yield layer.bias, False
    yield model.norm.weight, False
    yield model.norm.bias, False
    yield model.head.weight, True


def load(model, path):
    with open(path, "rb") as file, torch.no_grad():
        for parameter, transposed in parameters_in_our_order(model):
            values = torch.frombuffer(bytearray(file.read(parameter.numel() * 4)), dtype=torch.float32)
            shape = parameter.shape[::-1] if transposed else parameter.shape
            parameter.copy_(values.view(shape).T if transposed else values.view(shape))
        assert not file.read(1), "the weights are not this model's"


class Contestant:
    def __init__(self, mode, config):
        self.config, self.mode, self.steps = config, mode, 0
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        model = Gpt(config["model"])
        load(model, config["weights"])
        self.parameters = list(model.parameters())
        if mode == "fsdp2":
            from torch.distributed.fsdp import fully_shard
            from torch.distributed.device_mesh import init_device_mesh
            mesh = init_device_mesh("cpu", (self.ranks,))
            for block in model.blocks:
                fully_shard(block, mesh=mesh)
            fully_shard(model, mesh=mesh)
            self.parameters = list(model.parameters())
        self.model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True) if mode == "ddp" else model
        groups = [{"params": [p for p in self.parameters if p.dim() > 1], "weight_decay": 0.1},
                  {"params": [p for p in self.parameters if p.dim() < 2], "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=config["lr"], betas=(0.9, 0.95), fused=True)
        with open(config["tokens"], "rb") as file:
            tokens = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
        length = config["model"]["context"] + 1
        self.windows = tokens[:len(tokens) // length * length].view(-1, length)

    def batch(self):
        first = (self.steps * self.ranks + self.rank) * self.config["sequences"]
        self.steps += 1
        windows = self.windows[[(first + i) % len(self.windows) for i in range(self.config["sequences"])]]
        return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()

    def train(self):
        """(seconds of the slowest rank, average loss of the global batch)."""
        begin = time.perf_counter()
        tokens, targets = self.batch()
        loss = F.cross_entropy(self.model(tokens).view(-1, VOCABULARY), targets.view(-1))
        loss.backward()
        if self.config["max_grad_norm"] > 0:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.config["max_grad_norm"])
        self.optimizer.step()
        self.optimizer.zero_grad()
        average = loss.detach()
        if self.mode != "local":
            dist.all_reduce(average)
            average /= self.ranks
        seconds = torch.tensor(time.perf_counter() - begin)
        dist.all_reduce(seconds, dist.ReduceOp.MAX)
        return seconds.item(), average.item()


def resident_bytes():
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))


def check(mode, config, contestants):
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    dist.barrier()
    before = resident_bytes()
    contestant = contestants[mode] = Contestant(mode, config)
    losses = [contestant.train()[1] for _ in range(config["checked"])]
    dist.barrier()
    resident = torch.tensor(float(resident_bytes() - before))
    dist.all_reduce(resident)
    return {"losses": losses, "resident": resident.item() / dist.get_world_size()}


def matmul_rate():
    a = torch.full((1024, 1024), 0.5)
    best = 0.0
    for _ in range(4):
        begin = time.perf_counter()
        a @ a
        best = max(best, 2.0 * 1024**3 / (time.perf_counter() - begin))
    return best


def rates():
    dist.barrier()
    rate = torch.tensor(matmul_rate())
    dist.all_reduce(rate)
    return {"version": torch.__version__, "matmul": rate.item() / dist.get_world_size()}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        config = json.load(file)
    torch.set_num_threads(config["threads"])
    dist.init_process_group("gloo", init_method=config["rendezvous"], rank=int(os.environ["RANK"]),
                            world_size=int(os.environ["WORLD_SIZE"]))
    contestants = {}
    for line in sys.stdin:
        verb, _, name = line.strip().partition(" ")
        if verb == "rates":
            answer = rates()
        elif verb == "check":
            answer = check(name, config, contestants)
        else:
            dist.barrier()
            contestants[name].train()    # ours are timed in their second step, too
            answer = {"step_s": contestants[name].train()[0]}
        if dist.get_rank() == 0:
            print(json.dumps(answer), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
