#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
export WORLD_SIZE=16
exec srun autolaunch train.py
# lint-expect: 3
