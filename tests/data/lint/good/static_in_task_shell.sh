#!/bin/bash
#SBATCH --nodes=2 --exclusive --ntasks-per-node=1 --gres=gpu:8 --cpus-per-task=64
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=29500
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
srun -K1 bash -c 'torchrun --nnodes=2 --nproc-per-node=8 --node-rank=$SLURM_NODEID \
    --master-addr=$MASTER_ADDR --master-port=$MASTER_PORT train.py'
