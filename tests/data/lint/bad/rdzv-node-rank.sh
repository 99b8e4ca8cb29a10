#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
srun -K torchrun --nnodes=2 --nproc-per-node=8 --master-addr=$HEAD train.py
# lint-expect: 3
