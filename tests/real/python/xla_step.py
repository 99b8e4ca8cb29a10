# torch-xla: each rank computes on its XLA device, and gloo adds up the gradients. On CPUs its runtime knows one process alone.
import os
import warnings
warnings.filterwarnings("ignore")
import torch
import torch.distributed as dist
import torch_xla
import torch_xla.runtime

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
device = torch_xla.device()
torch.manual_seed(0)
model = torch.nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
torch.manual_seed(100 + rank)
for _ in range(10):
    x = torch.randn(16, 8).to(device)
    optimizer.zero_grad()
    (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
    torch_xla.sync()
    for parameter in model.parameters():
        gradient = parameter.grad.cpu()
        dist.all_reduce(gradient)
        parameter.grad = (gradient / size).to(device)
    optimizer.step()
    torch_xla.sync()
total = sum(p.sum().item() for p in model.parameters())
print(f"result xla rank {rank} of {size}, local {os.environ['LOCAL_RANK']}, {torch_xla.runtime.device_type()} process "
      f"{torch_xla.runtime.process_index()} of {torch_xla.runtime.process_count()}: {total:.6f}", flush=True)
dist.destroy_process_group()
