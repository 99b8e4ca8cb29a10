#!/bin/bash
#SBATCH --nodes=1
srun -n1 ./prepare &
srun -n1 ./more &
# lint-expect: 3,4
