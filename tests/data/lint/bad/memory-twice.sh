#!/bin/bash
#SBATCH --nodes=1 --mem=100G
#SBATCH --mem-per-cpu=4G
srun ./prepare
# lint-expect: 3
