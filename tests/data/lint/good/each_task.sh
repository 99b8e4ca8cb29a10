#!/bin/bash
# srun starts this once for each task, so a rank is right here.
export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID NODE_RANK=$SLURM_NODEID
export WORLD_SIZE=$SLURM_NTASKS
exec python -u train.py "$@"
