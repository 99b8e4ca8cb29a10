# fully_shard (FSDP2) over gloo; its state goes through torch.distributed.checkpoint and comes back into another model.
import sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,))


def make(seed):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


def train(model, optimizer, seed, steps):
    torch.manual_seed(seed + rank)
    for _ in range(steps):
        x = torch.randn(32, 8)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


model, optimizer = make(0)
first = train(model, optimizer, 100, 10)
weights, moments = get_state_dict(model, optimizer)
dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=sys.argv[1])
other, its_optimizer = make(1)
train(other, its_optimizer, 300, 1)
weights, moments = get_state_dict(other, its_optimizer)
state = {"model": weights, "optimizer": moments}
dcp.load(state, checkpoint_id=sys.argv[1])
set_state_dict(other, its_optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
goes_on, loaded = train(model, optimizer, 200, 5), train(other, its_optimizer, 200, 5)
print(f"result fsdp2 rank {rank} of {size}: {first:.6f} {goes_on:.6f}, after a load {loaded:.6f}", flush=True)
assert goes_on == loaded, (goes_on, loaded)
dist.destroy_process_group()
