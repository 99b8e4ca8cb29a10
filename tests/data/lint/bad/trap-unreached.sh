#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive
#SBATCH --signal=USR1@120
trap 'scontrol requeue $SLURM_JOB_ID' USR1
srun autolaunch -c train.yaml &
wait
# lint-expect: 4
