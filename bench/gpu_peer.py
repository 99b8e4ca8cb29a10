"""What bench/gpu compares with, in PyTorch on the first GPU: the last line is JSON.

    python3 gpu_peer.py PARAMETERS
"""
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

from fsdp_step_peer import Block

ROWS, CONTEXT, VOCABULARY, WIDTH, LAYERS, HEADS = 16, 1024, 50304, 768, 12, 12


def best_of(rounds, times, work):
    """Seconds of one, in the best round, as tests/gpu/fsdp_gpu measures."""
    work()
    torch.cuda.synchronize()
    best = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(times):
            work()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - begin) / times)
    return best


def adamw(parameters):
    tensors = [nn.Parameter(torch.zeros(parameters // 8, device="cuda")) for _ in range(8)]
    for tensor in tensors:
        tensor.grad = torch.full_like(tensor, 1e-3)
    optimizer = torch.optim.AdamW(tensors, lr=1e-3, betas=(0.9, 0.999), weight_decay=0.1, fused=True)
    return best_of(5, 10, optimizer.step)


class Gpt(nn.Module):
    """GPT-2 124M, whose head is the table of tokens."""
    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH, HEADS) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.token.weight)


def tokens_per_second():
    torch.manual_seed(1)
    model = Gpt().to("cuda", torch.bfloat16)
    tokens = torch.randint(256, (ROWS, CONTEXT), device="cuda")

    def one_pass():
        logits = model(tokens)
        F.cross_entropy(logits.view(-1, VOCABULARY), tokens.view(-1)).backward()
        model.zero_grad(set_to_none=False)    # ours adds to gradients that are there, too

    return ROWS * CONTEXT / best_of(1, 10, one_pass)


def main():
    result = {"version": torch.__version__, "adamw": adamw(int(sys.argv[1]))}
    torch.cuda.empty_cache()
    result["tokens"] = tokens_per_second()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
