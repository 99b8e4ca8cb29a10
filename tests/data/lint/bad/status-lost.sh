#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
srun autolaunch -c train.yaml
echo finished
# lint-expect: 4
