# Ranks that find each other by a published name, connect, and talk; then leave.
from mpi4py import MPI

world = MPI.COMM_WORLD
service = "autolaunch-real-test"
if world.rank == 0:
    port = MPI.Open_port()
    MPI.Publish_name(service, port)
    world.Barrier()
    other = MPI.COMM_SELF.Accept(port)
else:
    world.Barrier()
    port = MPI.Lookup_name(service)
    other = MPI.COMM_SELF.Connect(port)
other.send(world.rank, dest=0)
heard = other.recv(source=0)
assert heard == 1 - world.rank, heard
other.Disconnect()
if world.rank == 0:
    MPI.Unpublish_name(service, port)
    MPI.Close_port(port)
print(f"rank {world.rank} connected, and heard {heard}", flush=True)
world.Barrier()
