#!/bin/bash
#SBATCH --nodes=2 --exclusive
# No InfiniBand here.   autolaunch-lint: ignore=nccl-ib-disable
export NCCL_IB_DISABLE=1
export NCCL_DEBUG=INFO NCCL_ALGO=Ring  # autolaunch-lint: ignore=nccl-debug,nccl-tuning-left
exec srun autolaunch -c train.yaml
