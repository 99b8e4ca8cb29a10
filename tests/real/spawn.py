# MPI_Comm_spawn, which may be refused, but not hang, and leaves the ranks as they were.
import sys
from mpi4py import MPI

world = MPI.COMM_WORLD
MPI.COMM_SELF.Set_errhandler(MPI.ERRORS_RETURN)
try:
    MPI.COMM_SELF.Spawn("/bin/true", maxprocs=1)
    print("spawned", flush=True)
except MPI.Exception as error:
    print("refused:", error.Get_error_class() != MPI.SUCCESS, flush=True)
assert world.allreduce(1) == world.size
