#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
export NCCL_SOCKET_IFNAMES=ib
exec srun autolaunch -c train.yaml
# lint-expect: 3
