#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
srun -K torchrun --standalone --nproc-per-node 8 train.py
srun autolaunch --standalone -c train.yaml
# lint-expect: 3,4
