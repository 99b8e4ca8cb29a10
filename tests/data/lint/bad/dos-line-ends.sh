#!/bin/bash
#SBATCH --nodes=1
srun ./prepare
# lint-expect: 1
