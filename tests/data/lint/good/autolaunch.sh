#!/bin/bash
#SBATCH --nodes=4 --gpus-per-node=8 --ntasks-per-node=1 --exclusive
#SBATCH --time=1-00 --signal=USR1@120 --requeue --open-mode=append
#SBATCH --output=logs/%x-%j.out   # the folder is there
exec srun --wait=60 autolaunch --signals-to-handle SIGUSR1,SIGTERM -c train.yaml
