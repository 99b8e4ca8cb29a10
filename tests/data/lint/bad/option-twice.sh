#!/bin/bash
#SBATCH --nodes=1
#SBATCH --time=10
#SBATCH -N 2
srun ./prepare
# lint-expect: 4
