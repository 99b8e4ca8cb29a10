#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4 --gres=gpu:8
#SBATCH --gpus-per-task=1
srun -K python train.py
# lint-expect: 3
