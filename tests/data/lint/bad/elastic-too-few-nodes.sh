#!/bin/bash
#SBATCH --nodes=4 --ntasks-per-node=1 --gpus-per-node=8 --exclusive --no-kill
exec srun --no-kill autolaunch --nnodes 4 --spare-nodes 1 -c train.yaml
# lint-expect: 3
