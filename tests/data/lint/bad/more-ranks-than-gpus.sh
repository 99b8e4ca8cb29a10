#!/bin/bash
#SBATCH --nodes=1 --gres=gpu:a100:4
exec srun autolaunch --nproc-per-node=8 train.py
# lint-expect: 3
