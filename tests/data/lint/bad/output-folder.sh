#!/bin/bash
#SBATCH --nodes=1
#SBATCH --output=missing/%j.out
#SBATCH --error=logs/%j/err.txt
srun ./prepare
# lint-expect: 3,4
