#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=8 --partition=gpu
#SBATCH --cpus-per-task=16
#SBATCH --mem=500G
#SBATCH --gres=gpu:8
srun --cpus-per-task=16 ./prepare
