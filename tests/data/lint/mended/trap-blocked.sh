#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
#SBATCH --signal=B:USR1@120
trap 'touch stop' SIGUSR1
srun autolaunch -c train.yaml &
wait "$!"
