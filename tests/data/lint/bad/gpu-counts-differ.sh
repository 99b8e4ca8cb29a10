#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=4
#SBATCH --gpus=16
salloc -N1 --gres=gpu:2 --gpus-per-node=4
srun --gpus-per-node=8 ./prepare
# lint-expect: 4,5,6
