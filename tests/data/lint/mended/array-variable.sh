#!/bin/bash
#SBATCH --nodes=1 --array=0-9
exec srun autolaunch train.py --seed "$SLURM_ARRAY_TASK_ID"
