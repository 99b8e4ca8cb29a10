#!/usr/bin/env python3
"""Writes sgd_golden.txt: what torch.optim.SGD does to small tensors (made with torch 1.13.0 on a CPU).

Run: /usr/bin/python3 tests/data/sgd_golden.py > tests/data/sgd_golden.txt
Each case is a line "case NAME lr momentum dampening weight_decay nesterov steps count", the start values "p", one line "g" a
step, and the results "p" and, with a momentum, "b" after the last. Floats are hexadecimal: exact.
"""
import torch


def line(name, tensor):
    return name + " " + " ".join(float(x).hex() for x in tensor.tolist())


def case(name, lr, momentum, dampening, weight_decay, nesterov, steps, count):
    print("case", name, *(float(x).hex() for x in (lr, momentum, dampening, weight_decay)), int(nesterov), steps, count)
    p = torch.nn.Parameter(torch.randn(count))
    print(line("p", p))
    optimizer = torch.optim.SGD([p], lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
                                nesterov=nesterov, foreach=False)
    for _ in range(steps):
        p.grad = torch.randn(count) * 0.3
        print(line("g", p.grad))
        optimizer.step()
    print(line("p", p))
    if momentum > 0:
        print(line("b", optimizer.state[p]["momentum_buffer"]))


torch.manual_seed(2)
torch.set_num_threads(1)
case("plain", 1e-1, 0, 0, 0, False, 3, 19)
case("decay", 1e-1, 0, 0, 0.05, False, 3, 19)
case("momentum", 1e-2, 0.9, 0, 1e-4, False, 6, 21)
case("dampening", 5e-2, 0.8, 0.3, 0.01, False, 5, 17)
case("nesterov", 1e-2, 0.95, 0, 1e-3, True, 6, 33)
