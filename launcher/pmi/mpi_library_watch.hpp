#pragma once
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Tells when a process of this machine opens an MPI library: somebody starts an MPI program, which
/// may be over before a look that comes by the clock. The kernel tells it (inotify), not who it is;
/// until then this costs a descriptor.
///
/// Owner: MpiWatch. Threads: the agent's one. Blocks: never.
class MpiLibraryWatch {
public:
    /// `on_open` is called from the event loop, once for what has come together. Where the kernel
    /// has no watches left, never: there are looks by the clock, too.
    MpiLibraryWatch(asio::io_context& io, const std::vector<std::string>& libraries,
                    std::function<void()> on_open);

private:
    void wait();

    asio::posix::stream_descriptor events_;
    std::function<void()> on_open_;
    /// A wait that is over may be behind our own end in the loop.
    std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

/// The MPI libraries where a rank's loader finds them by name (LD_LIBRARY_PATH of `environment`,
/// the system's folders). Reads the disk.
std::vector<std::string> list_mpi_libraries(const std::vector<std::string>& environment);

}  // namespace autolaunch::launcher
