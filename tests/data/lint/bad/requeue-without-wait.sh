#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
#SBATCH --requeue --open-mode=append
exec srun autolaunch -c train.yaml
# lint-expect: 4
