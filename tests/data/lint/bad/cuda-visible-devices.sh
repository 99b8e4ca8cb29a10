#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
export CUDA_VISIBLE_DEVICES=0,1,2,3
exec srun autolaunch -c train.yaml
# lint-expect: 3
