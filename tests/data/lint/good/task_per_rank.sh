#!/bin/bash -l
#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=8 --cpus-per-task=12
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
export MASTER_PORT=${MASTER_PORT:-$((10000 + RANDOM % 20000))}
export WORLD_SIZE=$SLURM_NTASKS
srun --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" \
    bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID exec python train.py'
