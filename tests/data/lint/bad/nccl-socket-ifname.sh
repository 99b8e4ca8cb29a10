#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
export NCCL_SOCKET_IFNAME=eth0
export GLOO_SOCKET_IFNAME="=bond0"
exec srun autolaunch -c train.yaml
# lint-expect: 3,4
