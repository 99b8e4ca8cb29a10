#pragma once
// The way of a checked call from Communicator to its backend: at once, in a group, or on a
// CpuQueue.
#include "comm/backend.hpp"
#include "comm/call_log.hpp"
#include "comm/queued_work.hpp"
#include "session/generation_watch.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch {

/// Keeps the calls of one communicator in order whatever stream they are on: a call without a queue
/// waits for those that are queued, a call on another queue runs after them. Each is written down
/// in the flight recorder.
///
/// Owner: the Communicator handles of one group. Threads: one at a time. Blocks: with a CPU backend
/// and no queue, until the call is done.
class CallDispatcher {
public:
    /// `watch`: of the generation that the group ends with; null: it ends with none.
    explicit CallDispatcher(std::shared_ptr<CommunicatorBackend> backend, FlightRing ring = {},
                            std::shared_ptr<GenerationWatch> watch = nullptr)
        : watch_(std::move(watch)),
          backend_(std::move(backend)),
          device_(backend_->device_type()),
          rank_(backend_->rank()),
          size_(backend_->size()),
          ring_(std::make_shared<FlightRing>(std::move(ring))) {
        if (watch_)
            hook_ =
                watch_->hooks().add([this](const std::string& reason) { backend_->abort(reason); });
    }
    CallDispatcher(const CallDispatcher&) = delete;
    CallDispatcher& operator=(const CallDispatcher&) = delete;

    // The backend's own answers, without a virtual call.
    DeviceType device_type() const noexcept { return device_; }
    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }

    /// Copies the call when it is not run at once.
    Work submit(const CollectiveCall& call, Stream stream);
    void barrier();
    void group_start();
    Work group_end(Stream stream);
    /// What is no CollectiveCall and has no stream: after what is queued, and recorded as `call`.
    template <class Run>
    auto run(const FlightCall& call, Run run) {
        FlightRing::Entry entry = begin(call);
        try {
            auto result = run(*backend_);
            ring_->end(entry, false);
            return result;
        } catch (...) {
            fail(entry);
        }
    }
    /// Of a group that was made of this one: "world/1.rest", all ranks alike. The number grows with
    /// each call.
    std::string name_part(const std::string& part) {
        return ring_->name() + "/" + std::to_string(++parts_) + "." + part;
    }
    /// Nobody is to learn any more what became of them: the group was lost.
    void forget_queued() noexcept { last_.reset(); }
    const std::shared_ptr<GenerationWatch>& watch() const noexcept { return watch_; }
    const FlightRing& ring() const noexcept { return *ring_; }
    void set_label(std::string_view label) noexcept { ring_->set_label(label); }

private:
    using Entries = std::vector<FlightRing::Entry>;

    void drain();
    FlightRing::Entry begin(const FlightCall& call);
    [[noreturn]] void fail(FlightRing::Entry& entry);
    Work enqueue(CpuQueue& queue, Entries entries, std::function<void(CommunicatorBackend&)> start);

    std::shared_ptr<GenerationWatch> watch_;
    std::shared_ptr<CommunicatorBackend> backend_;
    DeviceType device_;
    int rank_;
    int size_;
    std::shared_ptr<FlightRing> ring_;
    std::shared_ptr<QueuedWork> last_;  // the newest queued call
    int parts_ = 0;
    bool grouping_ = false;
    std::vector<CollectiveCall> group_;
    Stream group_stream_;
    std::shared_ptr<void> hook_;  // last: it uses the backend
};

}  // namespace autolaunch
