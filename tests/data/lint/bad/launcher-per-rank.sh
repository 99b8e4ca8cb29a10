#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=8 --exclusive
srun -K torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=$HEAD:0 train.py
srun -K accelerate launch train.py
for rank in 0 1; do
    # autolaunch-lint: ignore=srun-missing
    torchrun --nnodes=2 --node_rank=$rank --nproc-per-node=4 --master-addr=$HEAD train.py &
done
wait
for ((i = 0; i < 2; i++)); do
    # autolaunch-lint: ignore=srun-missing
    torchrun --nnodes=2 --node_rank $i --nproc-per-node=4 --master-addr=$HEAD train.py &
done
wait
# lint-expect: 3,4,7,12
