#pragma once
// What a Work refers to: one collective that a backend has put on a stream and has not finished yet.
#include <autolaunch/comm/communicator.hpp>

namespace autolaunch {

/// Made by backends whose collectives return before they are done. Owner: the Work handles. Threads: any. wait()
/// blocks until the operation is over, at most the communicator's timeout, and throws what it failed with, every time
/// it is called. Backends that block in the call return an empty Work instead and throw from the call.
class AUTOLAUNCH_API Work::State {
public:
    virtual ~State() = default;
    virtual bool is_completed() const = 0;
    virtual void wait() = 0;
};

}  // namespace autolaunch
