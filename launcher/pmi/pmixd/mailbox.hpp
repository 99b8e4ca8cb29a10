#pragma once
#include "base/unique_fd.hpp"

#include <deque>
#include <functional>
#include <mutex>

namespace autolaunch::launcher {

/// Work that one thread leaves for another. autolaunch-pmixd moves what PMIx calls on its own
/// thread to the main one.
///
/// Owner: the receiving thread's. Threads: post() any, the rest the receiver's. Blocks: never.
class Mailbox {
public:
    /// Throws SystemError.
    Mailbox();

    void post(std::function<void()> work);
    /// Readable while something is in it.
    int fd() const { return wake_.get(); }
    /// Does what was posted until now, in order.
    void work_off();

private:
    UniqueFd wake_;
    std::mutex mutex_;
    std::deque<std::function<void()>> waiting_;
};

}  // namespace autolaunch::launcher
