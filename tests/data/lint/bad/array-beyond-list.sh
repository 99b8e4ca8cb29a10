#!/bin/bash
#SBATCH --nodes=1 --array=1-3
RATES=(1e-3 3e-4 1e-4)
LR=${RATES[$SLURM_ARRAY_TASK_ID]}
exec srun autolaunch train.py --lr "$LR"
# lint-expect: 2
