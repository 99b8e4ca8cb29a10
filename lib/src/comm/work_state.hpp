#pragma once
// What a Work refers to: one collective that was put on a stream and has not finished yet.
#include <autolaunch/comm/communicator.hpp>

#include <chrono>

namespace autolaunch {

/// Made where calls return before they are done: for queues, and by device backends. Owner: the
/// Work handles. Threads: any. wait() blocks until the operation is over, at most the
/// communicator's timeout, and throws what it failed with, every time it is called.
class AUTOLAUNCH_API Work::State {
public:
    virtual ~State() = default;
    virtual bool is_completed() const = 0;
    virtual void wait() = 0;
    /// False when it is not over after `timeout`.
    virtual bool wait_for(std::chrono::nanoseconds timeout) = 0;
};

}  // namespace autolaunch
