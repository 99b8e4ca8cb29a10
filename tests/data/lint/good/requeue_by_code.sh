#!/bin/bash
#SBATCH -N4 -J gpt --gpus-per-node=h100:8
#SBATCH -t 1-00:00:00
#SBATCH --partition gpu --mem 900G
module load cuda/12.4
source "$HOME/venv/bin/activate"

srun autolaunch -c train.yaml checkpoint.checkpoint_dir=/shared/gpt ; code=$?
[ $code -ne 75 ] || scontrol requeue "$SLURM_JOB_ID"
exit $code
