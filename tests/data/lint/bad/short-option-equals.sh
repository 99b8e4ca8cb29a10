#!/bin/bash
#SBATCH -N=4
srun ./prepare
# lint-expect: 2
