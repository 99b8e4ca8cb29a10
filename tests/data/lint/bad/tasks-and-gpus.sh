#!/bin/bash
salloc -N 2 --ntasks-per-node=8 --gres=gpu:4 --time=1:00:00
salloc --gpus=4 -n 3
srun -K -N2 --ntasks-per-node 8 --gpus-per-node=4 python train.py
srun -N1 -n 8 --gres=gpu:a100:4 autolaunch train.py
# lint-expect: 2,3,4,5
