#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4 --gpus=8 --gres=gpu:a100:4 --exclusive
set -euo pipefail
srun -K python train.py
srun -K --ntasks-per-node=4 --gpus-per-task=1 torchrun --nnodes=8 --nproc-per-node=1 \
    --rdzv-backend=c10d --rdzv-endpoint=$HEAD:0 train.py
srun -K --ntasks-per-node=16 ./solver --threads 2
torchrun_program=./build/train
srun autolaunch --no-python ./train.py
srun autolaunch --no-python python3 train.py
srun autolaunch --no-python "$torchrun_program" --config run.py
tensorboard --logdir runs --host 127.0.0.1 &
docker run -d -p 127.0.0.1:3000:3000 grafana/grafana
docker run -d -p 8080:80 nginx
sudo ufw allow from 10.0.0.0/24 to any port 3000 proto tcp
sudo ufw allow 22/tcp
for i in 0 1 2 3; do
    CUDA_VISIBLE_DEVICES=$i python evaluate.py --part "$i" &
done
wait
export NCCL_IB_DISABLE=0 NCCL_IB_GID_INDEX=3
if lspci | grep -q Mellanox; then
    export NCCL_CROSS_NIC=1
else
    export NCCL_CROSS_NIC=0 TORCH_NCCL_ASYNC_ERROR_HANDLING=1 TORCH_NCCL_BLOCKING_WAIT=0
fi
export NCCL_NET=IB NCCL_MIN_CTAS=4 NCCL_MAX_CTAS=16
scontrol create PartitionName=gpu Nodes=n1
scontrol create reservation starttime=now duration=60 users=root nodes=n1
