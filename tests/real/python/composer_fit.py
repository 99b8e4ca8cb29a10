# Composer's Trainer with two processes over gloo.
import os
import warnings
warnings.filterwarnings("ignore")
import composer
import torch
from composer.utils import dist


class Model(composer.ComposerModel):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 1)

    def forward(self, batch):
        return self.net(batch[0])

    def loss(self, outputs, batch):
        return (outputs - batch[0].sum(1, keepdim=True)).square().mean()


dist.initialize_dist("cpu")
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(256, 8))
loader = torch.utils.data.DataLoader(data, batch_size=16, sampler=dist.get_sampler(data))
model = Model()
trainer = composer.Trainer(model=model, train_dataloader=loader, max_duration="1ep", device="cpu", progress_bar=False,
                           optimizers=torch.optim.SGD(model.parameters(), lr=1e-2), run_name="real")
trainer.fit()
print(f"result composer rank {dist.get_global_rank()} of {dist.get_world_size()}, local {dist.get_local_rank()}, node "
      f"{dist.get_node_rank()}: {sum(p.sum().item() for p in model.parameters()):.6f} after {trainer.state.timestamp.batch} steps", flush=True)
