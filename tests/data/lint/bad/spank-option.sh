#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
#SBATCH --container-image=nvcr.io#nvidia/pytorch:25.01-py3 --container-mounts /data:/data
#SBATCH --sitewide-thing=on
exec srun autolaunch -c train.yaml
# lint-expect: 3,4
