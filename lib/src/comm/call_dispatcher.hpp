#pragma once
// The way of a checked call from Communicator to its backend: at once, in a group, or on a CpuQueue.
#include "comm/backend.hpp"
#include "comm/queued_work.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace autolaunch {

/// Keeps the calls of one communicator in order whatever stream they are on: a call without a queue waits for those
/// that are queued, a call on another queue runs after them.
///
/// Owner: the Communicator handles of one group. Threads: one at a time. Blocks: with a CPU backend and no queue, until
/// the call is done.
class CallDispatcher {
public:
    explicit CallDispatcher(std::shared_ptr<CommunicatorBackend> backend) : backend_(std::move(backend)) {}

    Work submit(CollectiveCall call, Stream stream);
    void barrier();
    void group_start();
    Work group_end(Stream stream);
    /// Waits for what is queued, and throws what the last of it failed with: before calls that have no stream.
    void drain();

private:
    Work enqueue(CpuQueue& queue, std::function<void(CommunicatorBackend&)> start);

    std::shared_ptr<CommunicatorBackend> backend_;
    std::shared_ptr<QueuedWork> last_;  // the newest queued call
    bool grouping_ = false;
    std::vector<CollectiveCall> group_;
    Stream group_stream_;
};

}  // namespace autolaunch
