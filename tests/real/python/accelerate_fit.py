# Hugging Face's accelerate.
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

accelerator = Accelerator(cpu=True)
set_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
data = torch.utils.data.DataLoader(torch.randn(256, 8), batch_size=16)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
steps = 0
for batch in data:
    loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    steps += 1
total = accelerator.gather(loss.detach().reshape(1)).sum().item()
print(f"result accelerate rank {accelerator.process_index} of {accelerator.num_processes}, "
      f"local {accelerator.local_process_index}: {total:.6f} after {steps} steps", flush=True)
accelerator.end_training()
