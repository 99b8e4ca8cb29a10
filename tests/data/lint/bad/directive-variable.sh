#!/bin/bash
#SBATCH --nodes=1 --job-name=$USER-test
srun ./prepare
# lint-expect: 2
