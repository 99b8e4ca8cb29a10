#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
export RANK=$SLURM_PROCID
export LOCAL_RANK=0
srun --kill-on-bad-exit=1 python train.py
# lint-expect: 3,4
