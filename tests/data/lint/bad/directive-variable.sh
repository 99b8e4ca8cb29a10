#!/bin/bash
#SBATCH --nodes=1 --job-name=$USER-test
#SBATCH --output=logs/$SLURM_JOB_NAME-${SLURM_JOB_ID}.out
srun ./prepare
# lint-expect: 2,3
