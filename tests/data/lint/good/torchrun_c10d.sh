#!/bin/bash
#SBATCH --job-name=llama
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gres=gpu:8
#SBATCH --output=logs/%x_%j.out
set -euo pipefail

nodes=( $( scontrol show hostnames "$SLURM_JOB_NODELIST" ) )
head_node=${nodes[0]}
port=$((20000 + SLURM_JOB_ID % 10000))
export NCCL_DEBUG=WARN
export NCCL_SOCKET_IFNAME=^docker,lo
export OMP_NUM_THREADS=12
echo "node $SLURM_NODEID of $SLURM_NNODES; head $head_node"
LAUNCHER="torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 --rdzv_backend c10d \
    --rdzv_endpoint $head_node:$port --rdzv_id $SLURM_JOB_ID"

srun --kill-on-bad-exit=1 $LAUNCHER train.py --config a.yaml 2>&1 | tee train.log
echo "done"
