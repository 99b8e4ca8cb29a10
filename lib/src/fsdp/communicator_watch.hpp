#pragma once
#include <autolaunch/comm/communicator.hpp>

#include <exception>
#include <mutex>
#include <vector>

namespace autolaunch::fsdp {

/// Whether results on streams can be trusted. When a communicator is aborted its kernels end like
/// others, with whatever they had by then, and what waits for them goes on. It is marked as aborted
/// before they end: who looks here after a result has come knows whether it is one.
///
/// Owner: the engine, and copies of state on their way to the CPU, which may outlive it. Threads:
/// any.
class CommunicatorWatch {
public:
    void watch(const Communicator& communicator);
    /// Throws what the first of them failed with.
    void check() const;
    /// All results have come. Lets go of the communicators; check() says from here on what it would
    /// say now.
    void close() noexcept;

private:
    mutable std::mutex mutex_;
    std::vector<Communicator> communicators_;
    std::exception_ptr failure_;
};

}  // namespace autolaunch::fsdp
