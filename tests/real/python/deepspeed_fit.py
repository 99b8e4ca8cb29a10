# DeepSpeed's ZeRO 1 on CPUs.
import deepspeed
import torch
import torch.distributed as dist

deepspeed.init_distributed("gloo", verbose=False)
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
engine, *_ = deepspeed.initialize(
    model=model, model_parameters=model.parameters(),
    config={"train_micro_batch_size_per_gpu": 16, "zero_optimization": {"stage": 1}, "zero_allow_untested_optimizer": True},
    optimizer=torch.optim.SGD(model.parameters(), lr=1e-2))
torch.manual_seed(100 + dist.get_rank())
for _ in range(10):
    x = torch.randn(16, 8)
    loss = (engine(x) - x.sum(1, keepdim=True)).square().mean()
    engine.backward(loss)
    engine.step()
print(f"result deepspeed rank {dist.get_rank()} of {dist.get_world_size()}: loss {loss.item():.6f}", flush=True)
dist.destroy_process_group()
