#!/bin/bash
#SBATCH -N 4 --gpus-per-node=8 --ntasks-per-node=1
srun -K torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint $HEAD:0 train.py
# lint-expect: 3
