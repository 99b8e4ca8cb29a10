#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
#SBATCH --time=1-00
exec srun autolaunch train.py --checkpoint-dir=/shared/ckpt
# lint-expect: 3
