#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
exec srun autolaunch train.py --checkpoint-dir=/shared/ckpt
