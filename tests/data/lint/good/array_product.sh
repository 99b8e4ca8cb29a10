#!/bin/bash
#SBATCH --array=0-11%4 --nodes=1 --gpus-per-node=1
#SBATCH --output=logs/sweep-%A_%a.out
rates=(1e-3 3e-4 1e-4)      # three
sizes=(32 64 128 256)
i=$SLURM_ARRAY_TASK_ID
exec srun autolaunch train.py --lr "${rates[i % 3]}" --batch "${sizes[$(( i / 3 ))]}"
