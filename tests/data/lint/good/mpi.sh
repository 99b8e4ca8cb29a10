#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4
mpirun ./solver input
srun --mpi=pmix ./solver input
exec srun autolaunch ./solver input
