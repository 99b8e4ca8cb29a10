# Lightning's Trainer with two processes. Without a launcher it starts the second one itself.
import os
import sys
import warnings
warnings.filterwarnings("ignore")
import lightning
import torch


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 1)

    def training_step(self, batch, _):
        return (self.net(batch) - batch.sum(1, keepdim=True)).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-2)


lightning.seed_everything(0, verbose=False)
data = torch.utils.data.DataLoader(torch.randn(256, 8), batch_size=16)
nodes = int(os.environ.get("SLURM_NNODES", 1)) if "slurm" in sys.argv else 1
trainer = lightning.Trainer(accelerator="cpu", devices=2, num_nodes=nodes, strategy="ddp", max_epochs=2, logger=False, enable_progress_bar=False,
                            enable_checkpointing=False, enable_model_summary=False)
model = Model()
trainer.fit(model, data)
print(f"result lightning rank {trainer.global_rank} of {trainer.world_size}, local {trainer.local_rank}, "
      f"{type(trainer.strategy.cluster_environment).__name__ if 'slurm' in sys.argv else 'fit'}: "
      f"{model.net.weight.sum().item():.6f} after {trainer.global_step} steps", flush=True)
