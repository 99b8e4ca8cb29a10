#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
#SBATCH --requeue
exec srun --wait=60 autolaunch -c train.yaml
# lint-expect: 3
