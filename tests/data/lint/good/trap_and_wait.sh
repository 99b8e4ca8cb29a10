#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive --time=12:00:00
#SBATCH --signal=B:SIGUSR1@300 --requeue --open-mode=append
requeue() {
    echo "time is nearly over"
    scontrol requeue "$SLURM_JOB_ID"
}
trap requeue USR1
srun --wait=60 autolaunch -c train.yaml checkpoint.checkpoint_dir=/shared/ckpt &
wait $!
exit $?
