#!/bin/bash
#SBATCH --array=1-3 --nodes=1
#SBATCH -o logs/%A_%a.out
NAMES=(small medium large)
WIDTHS=(256 512 1024)
INDEX=$((SLURM_ARRAY_TASK_ID - 1))
echo "case ${NAMES[$INDEX]} of ${#NAMES[@]}"
exec srun autolaunch train.py --name "${NAMES[$INDEX]}" --width "${WIDTHS[$INDEX]}"
