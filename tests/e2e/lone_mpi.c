/* An MPI as far as anybody can see from outside who asks neither PMIx nor PMI: MPI_Init opens and maps nothing, and tells it
 * nobody, as Intel MPI's does in a process that nobody launched. Compiled as a library libmpi.so.12, as a program linked
 * with it, and as one program with all of it: lone_mpi init|load|brief SECONDS, where brief is in MPI_Init all the time. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int MPI_Init(int*, char***);

#ifndef LONE_MPI_PROGRAM_ALONE
/* As MPICH has it: 0, in MPI_COMM_WORLD 1, after MPI_Finalize 2. A debugger's name, not one for the loader. */
__attribute__((visibility("hidden"))) volatile int MPIR_world_model_state = 0, MPIR_T_env_initialized = 0;

__attribute__((visibility("default"))) int MPI_Init(int* argc, char*** argv) {
    MPIR_T_env_initialized = 1;
    if (argc && strcmp((*argv)[1], "brief") == 0) usleep((useconds_t)(atof((*argv)[2]) * 1e6));
    MPIR_world_model_state = 1;
    return 0;
}
#endif

#ifndef LONE_MPI_LIBRARY_ALONE
int main(int argc, char** argv) {
    if (argc < 3) return 2;
    if (strcmp(argv[1], "load") != 0) MPI_Init(&argc, &argv);
    if (strcmp(argv[1], "brief") != 0) usleep((useconds_t)(atof(argv[2]) * 1e6));
    return 0;
}
#endif
