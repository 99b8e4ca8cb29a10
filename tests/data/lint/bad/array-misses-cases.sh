#!/bin/bash
#SBATCH --nodes=1
#SBATCH --array=0-7
RATES=(1e-3 3e-4 1e-4)
BATCHES=(32 64
    128)   # three
i=$SLURM_ARRAY_TASK_ID
LR=${RATES[$((i % 3))]}
BATCH=${BATCHES[i / ${#RATES[@]}]}
exec srun autolaunch train.py --lr "$LR" --batch "$BATCH"
# lint-expect: 3
