#pragma once
#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace autolaunch {

/// One read or write of a file.
struct IoRequest {
    int fd = -1;
    bool write = false;
    std::uint64_t offset = 0;
    std::byte* memory = nullptr;  ///< must stay until the request is over
    std::size_t bytes = 0;
    std::size_t tag = 0;  ///< comes back with the result
};

struct IoResult {
    std::size_t tag = 0;
    std::int64_t moved = 0;  ///< bytes, as read(2) has them, or -errno
};

/// Reads and writes that are under way side by side. Owner: one. Threads: one. Blocks:
/// wait(), as long as the storage does; the destructor, until what was started is over, because the
/// kernel still uses its memory.
class AUTOLAUNCH_API IoQueue {
public:
    virtual ~IoQueue() = default;

    /// At most `depth` requests may be under way.
    virtual void start(const IoRequest& request) = 0;
    /// The next one that is over; at least one must be under way.
    virtual IoResult wait() = 0;
    virtual std::string_view kind() const noexcept = 0;  ///< "io_uring" or "threads"
};

/// io_uring; null where this build or this kernel has none, or refuses it (seccomp,
/// kernel.io_uring_disabled).
AUTOLAUNCH_API std::unique_ptr<IoQueue> make_uring_queue(unsigned depth);
/// pread(2) and pwrite(2) in `depth` threads, which start with the first request.
AUTOLAUNCH_API std::unique_ptr<IoQueue> make_thread_queue(unsigned depth);

}  // namespace autolaunch
