#!/bin/bash
#SBATCH --nodes=5 --ntasks-per-node=1 --gpus-per-node=8 --exclusive --no-kill
#SBATCH --time=1-00 --requeue --open-mode=append
exec srun --no-kill --wait=0 autolaunch --nnodes 3:4 --spare-nodes 1 -c train.yaml
