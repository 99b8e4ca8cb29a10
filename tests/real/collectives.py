# Collectives of every rank, with results that every MPI computes alike.
from mpi4py import MPI

world = MPI.COMM_WORLD
size, rank = world.size, world.rank
total = world.allreduce(rank + 1)
gathered = world.allgather(rank * rank)
scattered = world.scatter([i * 10 for i in range(size)] if rank == 0 else None)
exchanged = world.sendrecv(rank, dest=(rank + 1) % size, source=(rank - 1) % size)
node = world.Split_type(MPI.COMM_TYPE_SHARED)
window = MPI.Win.Allocate_shared(8 if node.rank == 0 else 0, 1, comm=node)
memory = window.Shared_query(0)[0]
if node.rank == 0:
    memory[0:1] = b"x"
node.Barrier()
print(f"rank {rank} of {size}: {total} {gathered} {scattered} {exchanged} {bytes(memory[0:1])}", flush=True)
window.Free()
world.Barrier()
