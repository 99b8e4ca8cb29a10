#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
exec env NCCL_ALGO=Ring srun --export=ALL,NCCL_PROTO=Simple autolaunch -c train.yaml
# lint-expect: 3
