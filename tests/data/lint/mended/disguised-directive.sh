#!/bin/bash
#SBATCH --nodes=1
##SBATCH --time=1:00:00
#SBATCH --partition=gpu
##SBATCH --mem=4G
srun ./prepare
