# The Trainer of transformers, on a small GPT-2 made here; it saves, and goes on from what it saved.
import os
import sys
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

set_seed(0)
tokens = torch.randint(0, 64, (64, 16))
data = [{"input_ids": row, "labels": row} for row in tokens]


def fit(steps, resume):
    set_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=1, n_head=2, resid_pdrop=0,
                                       embd_pdrop=0, attn_pdrop=0))
    arguments = TrainingArguments(output_dir=sys.argv[1], use_cpu=True, max_steps=steps, per_device_train_batch_size=4,
                                  save_steps=4, report_to=[], disable_tqdm=True, logging_strategy="no", seed=0)
    trainer = Trainer(model=model, args=arguments, train_dataset=data)
    return trainer, trainer.train(resume_from_checkpoint=resume)


fit(4, None)
trainer, end = fit(8, os.path.join(sys.argv[1], "checkpoint-4"))
total = sum(p.double().sum().item() for p in trainer.model.parameters())
print(f"result trainer rank {trainer.args.process_index} of {trainer.args.world_size}: step {trainer.state.global_step}, "
      f"weights {total:.5f}", flush=True)
torch.distributed.destroy_process_group()
