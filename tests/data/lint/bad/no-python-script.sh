#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
srun -K torchrun --nnodes=2 --nproc_per_node=8 --rdzv-backend=c10d --rdzv-endpoint=$HEAD:0 --no_python train.py
exec srun autolaunch --no-python --nproc-per-node 8 train.py --lr 3e-4
# lint-expect: 3,4
