#!/bin/bash
#SBATCH --nodes=4 --ntasks-per-node=1 --gpus-per-node=8 --exclusive --no-kill
exec srun --no-kill -K --wait=0 autolaunch --nnodes 3:4 -c train.yaml
# lint-expect: 3
