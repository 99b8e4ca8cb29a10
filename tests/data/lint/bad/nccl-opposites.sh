#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
export NCCL_IB_DISABLE=1  # autolaunch-lint: ignore=nccl-ib-disable

export NCCL_IB_GID_INDEX=3
export NCCL_IB_HCA==mlx5_0
export NCCL_NET=IB
export NCCL_COLLNET_ENABLE=0 NCCL_COLLNET_NODE_THRESHOLD=2
export NCCL_MIN_CTAS=32
export NCCL_MAX_CTAS=8
exec srun autolaunch -c train.yaml
# lint-expect: 5,6,7,8,9
