#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=4
exec srun autolaunch --nproc-per-node 4 train.py
