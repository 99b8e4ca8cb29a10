#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4
srun mpirun -np 8 ./solver
# lint-expect: 3
