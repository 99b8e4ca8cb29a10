#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
export OMP_NUM_THREADS=1
exec srun autolaunch -c train.yaml
# lint-expect: 3
