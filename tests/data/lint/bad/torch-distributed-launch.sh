#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=4
python -m torch.distributed.launch --nproc_per_node=4 train.py
# lint-expect: 3
