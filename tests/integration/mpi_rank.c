/* An MPI program that does as it is told: mpi_rank WHAT. Compiled once with each MPI that is there. It ends with 0 only
 * when what it computed is right; MPI_EXPECT_SIZE, when set, says how many ranks there must be. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kCount = 65536 };

static int all_reduce_is_right(int rank, int size) {
    static float send[kCount], recv[kCount];
    for (int i = 0; i < kCount; ++i) send[i] = (float)(i % 97) + (float)rank;
    MPI_Allreduce(send, recv, kCount, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < kCount; ++i)
        if (recv[i] != (float)(i % 97) * (float)size + (float)(size * (size - 1)) / 2.0f) return 0;
    return 1;
}

/* Every pair of ranks, so that every pair must find each other. */
static int ring_is_right(int rank, int size) {
    for (int distance = 1; distance < size; ++distance) {
        int got = -1, right = (rank + distance) % size, left = (rank - distance + size) % size;
        MPI_Sendrecv(&rank, 1, MPI_INT, right, 7, &got, 1, MPI_INT, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (got != left) return 0;
    }
    return 1;
}

static int window_is_right(MPI_Comm node, int local_rank, int local_size) {
    int *base = NULL, *first = NULL, unit = 0, good = 1;
    MPI_Aint bytes = 0;
    MPI_Win window;
    MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, node, &base, &window);
    *base = local_rank;
    MPI_Win_fence(0, window);
    for (int i = 0; i < local_size; ++i) {
        MPI_Win_shared_query(window, i, &bytes, &unit, &first);
        good = good && *first == i;
    }
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    return good;
}

/* PMIx's last word to its server, which stands still until this process has ended, reaped or not: PMIx waits for the
 * answer for some seconds, and lets the program go. PMIx's callers come here, for a program's own function goes before a
 * library's. */
static int server_stands_still = 0;
int PMIx_Finalize(const void* info, size_t count) {
    int (*finalize)(const void*, size_t) = (int (*)(const void*, size_t))dlsym(RTLD_NEXT, "PMIx_Finalize");
    char command[256];
    snprintf(command, sizeof command,
             "server=$(pgrep -P %d autolaunch-pmix); kill -STOP $server || exit; "
             "(while grep -q '^State:.[^Z]' /proc/%d/status; do sleep 0.05; done; sleep 0.2; kill -CONT $server) "
             "2>/dev/null &",
             getppid(), getpid());
    if (server_stands_still && system(command) != 0) return -1;
    return finalize(info, count);
}

static volatile sig_atomic_t term_came = 0;
static void note_term(int signal) { term_came = signal; }
static void leave(int signal) {
    (void)signal;
    _exit(0);
}

/* As a trainer does: the ranks agree on the step after which they stop. */
static void wait_for_term(void) {
    for (int mine = 0, any = 0; !any; usleep(1000)) {
        mine = term_came != 0;
        MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    }
    puts("stopped by itself");
}

int main(int argc, char** argv) {
    const char* what = argc > 1 ? argv[1] : "";
    const char* expected = getenv("MPI_EXPECT_SIZE");
    int rank, size, local_rank, local_size, last, good;
    MPI_Comm node;

    if (strcmp(what, "no-init") == 0) return 0;
    if (strcmp(what, "last-skips-init") == 0 && atoi(getenv("RANK")) == atoi(getenv("WORLD_SIZE")) - 1) return 0;
    MPI_Init(&argc, &argv);
    if (strcmp(what, "stop-on-term") == 0) signal(SIGTERM, note_term);
    if (strcmp(what, "leave-on-term") == 0) signal(SIGTERM, leave);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &local_rank);
    MPI_Comm_size(node, &local_size);
    last = rank == size - 1;
    printf("rank %d of %d, local %d of %d\n", rank, size, local_rank, local_size);
    fflush(stdout);
    if (expected != NULL && atoi(expected) != size) return 3;
    if (getenv("RANK") != NULL && atoi(getenv("RANK")) != rank) return 4;
    if (getenv("LOCAL_WORLD_SIZE") != NULL && atoi(getenv("LOCAL_WORLD_SIZE")) != local_size) return 5;
    good = strcmp(what, "fast") == 0 || (all_reduce_is_right(rank, size) && ring_is_right(rank, size) &&
                                         window_is_right(node, local_rank, local_size));
    if (strcmp(what, "abort") == 0 && last) MPI_Abort(MPI_COMM_WORLD, good ? 42 : 6);
    if (strcmp(what, "kill") == 0 && last) raise(SIGKILL);
    if (strcmp(what, "exit") == 0 && last) _exit(0);
    if (strcmp(what, "sleep") == 0) sleep(600);
    if (strcmp(what, "stop-on-term") == 0) wait_for_term();
    if (strcmp(what, "leave-on-term") == 0) sleep(600);
    server_stands_still = strcmp(what, "late-finalize") == 0 && last;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&node);
    MPI_Finalize();
    return good ? 0 : 6;
}
