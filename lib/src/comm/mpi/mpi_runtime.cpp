#include "comm/mpi/mpi_runtime.hpp"

#include <chrono>
#include <mutex>
#include <thread>

// An ELF note in every program that has this file: it may need MPI only because libautolaunch does,
// which asks for it only when a communicator of that backend is made. autolaunch then serves MPI
// where that may happen (docs/mpi.md).
#if defined(__ELF__) && !defined(__arm__)
__asm__(
    ".pushsection .note.autolaunch,\"a\",@note\n"
    ".balign 4\n"
    ".long 11, 4, 1\n"
    ".asciz \"autolaunch\"\n"
    ".balign 4\n"
    ".long 1\n"
    ".popsection\n");
#endif

namespace autolaunch::mpi {

void check(int code, const char* doing) {
    if (code == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(code, text, &length);
    int kind = MPI_SUCCESS;
    MPI_Error_class(code, &kind);
    const ErrorCode ours = kind == MPI_ERR_TRUNCATE ? ErrorCode::mismatch : ErrorCode::closed;
    throw Error(ours, std::string("cannot ") + doing + ": " + text);
}

std::shared_ptr<Runtime> Runtime::acquire() {
    // Process-wide, as what it stands for.
    static std::mutex mutex;
    static std::weak_ptr<Runtime> current;
    const std::scoped_lock lock(mutex);
    auto runtime = current.lock();
    if (!runtime) {
        runtime.reset(new Runtime);
        current = runtime;
    }
    return runtime;
}

Runtime::Runtime() {
    int finalized = 0;
    check(MPI_Finalized(&finalized), "ask whether MPI is finalized");
    if (finalized != 0) {
        throw Error(ErrorCode::unsupported,
                    "backend mpi: MPI was already finalized, and cannot start again",
                    "keep one communicator of backend mpi alive as long as others will be made");
    }
    int initialized = 0;
    check(MPI_Initialized(&initialized), "ask whether MPI is initialized");
    if (initialized == 0) {
        check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &thread_level_),
              "initialize MPI");
        initialized_here_ = true;
    } else {
        check(MPI_Query_thread(&thread_level_), "ask for MPI's thread level");
    }
}

Runtime::~Runtime() {
    int finalized = 0;
    if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0)
        return;
    if (initialized_here_ && !never_finalize_.load())
        MPI_Finalize();
}

// Not a timed_mutex: ThreadSanitizer of this compiler does not see its timed locks.
std::unique_lock<std::mutex> try_for_a_moment(std::mutex& mutex) {
    constexpr int kTries = 100;
    std::unique_lock lock(mutex, std::try_to_lock);
    for (int i = 0; !lock && i < kTries; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        lock.try_lock();
    }
    return lock;
}

std::unique_lock<std::mutex> Runtime::serialize() {
    return thread_level_ == MPI_THREAD_MULTIPLE ? std::unique_lock<std::mutex>()
                                                : std::unique_lock(turn_);
}

std::optional<std::unique_lock<std::mutex>> Runtime::try_serialize() {
    if (thread_level_ == MPI_THREAD_MULTIPLE)
        return std::unique_lock<std::mutex>();
    auto lock = try_for_a_moment(turn_);
    if (!lock)
        return std::nullopt;
    return lock;
}

bool Runtime::may_call_here() const {
    if (thread_level_ >= MPI_THREAD_SERIALIZED)
        return true;
    int main = 0;
    return MPI_Is_thread_main(&main) == MPI_SUCCESS && main != 0;
}

void Runtime::require_this_thread() const {
    if (may_call_here())
        return;
    throw Error(ErrorCode::unsupported,
                "backend mpi: MPI was initialised for one thread, and this is another",
                "call MPI_Init_thread with MPI_THREAD_MULTIPLE, or leave MPI's initialisation to "
                "autolaunch");
}

}  // namespace autolaunch::mpi
