#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=8 --partition=gpu
#SBATCH --cpus-per-task=24
#SBATCH --mem=2T
#SBATCH --gres=gpu:16
srun --cpus-per-task=24 ./prepare
# lint-expect: 3,4,5
