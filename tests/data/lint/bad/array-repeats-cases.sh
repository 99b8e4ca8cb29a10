#!/bin/bash
#SBATCH --nodes=1 --array=0-5
RATES=(1e-3 3e-4 1e-4)
LR=${RATES[SLURM_ARRAY_TASK_ID % 3]}
exec srun autolaunch train.py --lr "$LR"
# lint-expect: 2
