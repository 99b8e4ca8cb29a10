#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=1 --time=60
export RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 MASTER_ADDR=localhost MASTER_PORT=0
export NCCL_IB_HCA==mlx5_0,mlx5_1 # exactly these
python train.py
