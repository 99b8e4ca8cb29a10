#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
export MASTER_ADDR=node017
srun -K --ntasks-per-node=8 python train.py
# lint-expect: 3
