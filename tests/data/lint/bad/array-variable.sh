#!/bin/bash
#SBATCH --nodes=1
exec srun autolaunch train.py --seed "$SLURM_ARRAY_TASK_ID"
# lint-expect: 3
