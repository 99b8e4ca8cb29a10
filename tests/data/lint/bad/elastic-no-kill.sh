#!/bin/bash
#SBATCH --nodes=5 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
exec srun --wait=0 autolaunch --nnodes 3:4 --spare-nodes 1 -c train.yaml
# lint-expect: 2,3
