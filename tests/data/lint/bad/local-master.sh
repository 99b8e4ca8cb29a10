#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=8
export MASTER_ADDR=127.0.0.1
srun -K python train.py
# lint-expect: 3
