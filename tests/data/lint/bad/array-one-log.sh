#!/bin/bash
#SBATCH --nodes=1 --array=0-5
#SBATCH --output=logs/train-%A.out
exec srun autolaunch train.py --seed "$SLURM_ARRAY_TASK_ID"
# lint-expect: 3
