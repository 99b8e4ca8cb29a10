#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
srun -N1 -n1 ./server --port 0 &
exec srun autolaunch train.py
