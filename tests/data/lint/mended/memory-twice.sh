#!/bin/bash
#SBATCH --nodes=1
#SBATCH --mem-per-cpu=4G
srun ./prepare
