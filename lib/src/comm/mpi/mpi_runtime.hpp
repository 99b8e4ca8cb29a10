#pragma once
// MPI's life in this process, and its errors as ours.
#include <autolaunch/error.hpp>

// The C API only; Open MPI's header would pull in its C++ bindings.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace autolaunch::mpi {

/// Throws Error{closed} with MPI's own text unless `code` is MPI_SUCCESS. `doing` reads as "cannot
/// <doing>".
void check(int code, const char* doing);

/// Locks `mutex` within a moment, or gives up: for aborts, which must not wait for what they are to
/// end.
std::unique_lock<std::mutex> try_for_a_moment(std::mutex& mutex);

/// Keeps MPI initialised. MPI is one per process by its own definition, so all backends of a
/// process share one runtime; the last one finalises MPI if it was initialised here and nothing was
/// aborted: MPI_Finalize waits for the other ranks, and after an abort they may never come.
///
/// Threads of this process may use groups of their own at once. Where MPI was initialised for less
/// than MPI_THREAD_MULTIPLE, they take turns: every MPI call is made under serialize(), and none of
/// them waits for a peer (but for the making of communicators, which is why abort() only tries for
/// a while).
///
/// Owner: the backends, by shared_ptr. Threads: any. Blocks: acquire() in MPI_Init_thread, the
/// destructor in MPI_Finalize.
class Runtime {
public:
    static std::shared_ptr<Runtime> acquire();
    ~Runtime();
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;

    /// Hold it around MPI calls. Empty where MPI needs no turns.
    std::unique_lock<std::mutex> serialize();
    /// As serialize(), but gives up after a moment: nullopt then.
    std::optional<std::unique_lock<std::mutex>> try_serialize();
    /// Whether this thread may call MPI at all; below MPI_THREAD_SERIALIZED only the main thread
    /// may.
    bool may_call_here() const;
    /// Throws Error{unsupported} where it may not.
    void require_this_thread() const;
    void never_finalize() noexcept { never_finalize_.store(true); }

private:
    Runtime();

    bool initialized_here_ = false;
    int thread_level_ = MPI_THREAD_SINGLE;
    std::mutex turn_;
    std::atomic<bool> never_finalize_{false};
};

}  // namespace autolaunch::mpi
