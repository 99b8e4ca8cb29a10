#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
srun --kill-on-bad-exit=1 bash -c 'torchrun --nnodes=2 --nproc-per-node=8 \
    --rdzv-backend=c10d --rdzv-endpoint=$HEAD:0 \
    --node-rank=$SLURM_NODEID \
    train.py'
