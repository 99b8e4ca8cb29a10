#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
export NCCL_P2P_DISABLE=1
export NCCL_SHM_DISABLE=1
exec srun autolaunch -c train.yaml
# lint-expect: 3,4
