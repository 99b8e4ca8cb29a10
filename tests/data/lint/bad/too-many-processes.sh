#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=8 --exclusive
export GPUS=8
srun -K1 torchrun --nnodes=2 --nproc_per_node=$GPUS --rdzv-backend=c10d --rdzv-endpoint=$HEAD:0 train.py
srun autolaunch --nproc-per-node 4 train.py
# lint-expect: 4,5
