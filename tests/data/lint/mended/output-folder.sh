#!/bin/bash
#SBATCH --nodes=1
#SBATCH --output=logs/%j.out
#SBATCH --error=logs/%j-err.txt
srun ./prepare
