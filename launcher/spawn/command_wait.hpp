#pragma once
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <functional>

namespace autolaunch::launcher {

/// Waits beside the job for a command that answers through a descriptor (SlurmCommand).
///
/// Owner: who asks. Threads: the one that runs the context. Blocks: no.
class CommandWait {
public:
    explicit CommandWait(asio::io_context& io) : answer_(io), timer_(io) {}

    /// `advance` takes what has come on `fd`, and says whether that was all. Calls `over` once:
    /// with true when it was, with false at the deadline or when it cannot be waited for. One at a
    /// time: what was waited for before is not any more.
    void begin(int fd, std::function<bool()> advance, std::chrono::milliseconds patience,
               std::function<void(bool answered)> over);
    /// `over` is not called.
    void stop();
    bool under_way() const { return static_cast<bool>(over_); }

private:
    void await();
    void end(bool answered);

    asio::posix::stream_descriptor answer_;
    asio::steady_timer timer_;
    std::function<bool()> advance_;
    std::function<void(bool)> over_;
};

}  // namespace autolaunch::launcher
