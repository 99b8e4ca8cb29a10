#!/usr/bin/env python3
"""Writes adamw_golden.txt: what torch.optim.AdamW does to small tensors (made with torch 1.13.1 on a CPU).

Run: /usr/bin/python3 tests/data/adamw_golden.py > tests/data/adamw_golden.txt
Each case is a line "case NAME lr beta1 beta2 eps weight_decay max_grad_norm steps count" (max_grad_norm 0: no clipping),
the start values "p", one line "g" a step, and the results "p", "m", "v" after the last. Floats are hexadecimal: exact.
"""
import torch


def line(name, tensor):
    return name + " " + " ".join(float(x).hex() for x in tensor.tolist())


def case(name, lr, beta1, beta2, eps, weight_decay, max_grad_norm, steps, count):
    print("case", name, *(float(x).hex() for x in (lr, beta1, beta2, eps, weight_decay, max_grad_norm)), steps, count)
    p = torch.nn.Parameter(torch.randn(count))
    print(line("p", p))
    optimizer = torch.optim.AdamW([p], lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay, foreach=False)
    for _ in range(steps):
        p.grad = torch.randn(count) * 0.3
        print(line("g", p.grad))
        if max_grad_norm > 0:
            torch.nn.utils.clip_grad_norm_([p], max_grad_norm)
        optimizer.step()
    state = optimizer.state[p]
    print(line("p", p))
    print(line("m", state["exp_avg"]))
    print(line("v", state["exp_avg_sq"]))


torch.manual_seed(1)
torch.set_num_threads(1)
case("defaults", 1e-3, 0.9, 0.999, 1e-8, 0.01, 0, 3, 21)
case("no_decay", 1e-2, 0.9, 0.95, 1e-8, 0, 0, 5, 17)
case("language_model", 6e-4, 0.9, 0.95, 1e-8, 0.1, 1.0, 8, 21)
case("large_eps", 1e-1, 0.5, 0.9, 1e-1, 0.2, 0, 4, 5)
