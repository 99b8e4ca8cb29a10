#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
exec srun autolaunch --nproc-per-node 8 train.py
