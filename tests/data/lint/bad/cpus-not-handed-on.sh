#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=8 --cpus-per-task=12
srun -K python train.py
# lint-expect: 3
