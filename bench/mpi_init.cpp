// The shortest MPI program: what bench/mpi_launch.py times. Exit code 1 when it is alone though
// MPI_EXPECT_SIZE says not.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdlib>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    const char* const expected = std::getenv("MPI_EXPECT_SIZE");
    return expected == nullptr || std::atoi(expected) == size ? 0 : 1;
}
