/* Ways for MPI ranks to fail. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
    const char* named = getenv("FAULT_RANK");
    const int culprit = named != NULL ? atoi(named) : 1;
    int rank, data[8] = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(argv[1], "abort") == 0 && rank == culprit)
        MPI_Abort(MPI_COMM_WORLD, 3);
    if (strcmp(argv[1], "crash") == 0 && rank == culprit)
        *(volatile int*)0 = 1;
    if (strcmp(argv[1], "leaves") == 0 && rank == culprit)
        exit(0);
    if (strcmp(argv[1], "late_code") == 0) {
        MPI_Finalize();
        return rank == culprit ? 9 : 0;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(data, 8, MPI_INT, 0, MPI_COMM_WORLD);
    sleep(600);
    return 0;
}
