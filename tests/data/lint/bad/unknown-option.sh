#!/bin/bash
#SBATCH --nodes=1
#SBATCH --ntask-per-node=8
#SBATCH --tim=10
srun ./prepare
# lint-expect: 3,4
