#pragma once
#include <memory>
#include <mutex>
#include <thread>

namespace autolaunch {

class NcclGroup;

/// A thread that looks after the communicators of a process ten times a second: at collectives that
/// nobody waits for, at NCCL's asynchronous errors, and at other ranks' aborts; and that starts the
/// threads which carry out aborts, so that abort() never blocks.
///
/// Owner: NcclRuntime. Threads: any. The thread starts with the first communicator.
class NcclWatchdog {
public:
    NcclWatchdog();
    ~NcclWatchdog();
    NcclWatchdog(const NcclWatchdog&) = delete;
    NcclWatchdog& operator=(const NcclWatchdog&) = delete;

    void watch(std::weak_ptr<NcclGroup> group);
    /// Look now.
    void wake();

private:
    struct State;
    std::shared_ptr<State> state_;
    std::mutex mutex_;
    std::thread thread_;
};

}  // namespace autolaunch
