#pragma once
// MPI's life in this process, and its errors as ours.
#include <autolaunch/error.hpp>

// The C API only; Open MPI's header would pull in its C++ bindings.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <atomic>
#include <memory>
#include <string>

namespace autolaunch::mpi {

/// Throws Error{closed} with MPI's own text unless `code` is MPI_SUCCESS. `doing` reads as "cannot <doing>".
void check(int code, const char* doing);

/// Keeps MPI initialised. MPI is one per process by its own definition, so all backends of a process share one runtime;
/// the last one finalises MPI if it was initialised here and nothing was aborted: MPI_Finalize waits for the other
/// ranks, and after an abort they may never come.
///
/// Owner: the backends, by shared_ptr. Threads: any. Blocks: acquire() in MPI_Init_thread, the destructor in
/// MPI_Finalize.
class Runtime {
public:
    static std::shared_ptr<Runtime> acquire();
    ~Runtime();
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;

    /// Whether this thread may call MPI beside the one that runs collectives.
    bool may_call_here() const;
    void never_finalize() noexcept { never_finalize_.store(true); }

private:
    Runtime();

    bool initialized_here_ = false;
    int thread_level_ = MPI_THREAD_SINGLE;
    std::atomic<bool> never_finalize_{false};
};

}  // namespace autolaunch::mpi
