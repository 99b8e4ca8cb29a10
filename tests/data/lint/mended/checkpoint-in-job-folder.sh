#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
CKPT_DIR=/shared/runs/gpt-small
exec srun autolaunch train.py --checkpoint-dir "$CKPT_DIR"
