#include "comm/call_dispatcher.hpp"

#include <autolaunch/error.hpp>

#include <exception>
#include <utility>

namespace autolaunch {
namespace {

CpuQueue* queue_of(Stream stream) {
    return stream.device().type == DeviceType::cpu ? static_cast<CpuQueue*>(stream.handle())
                                                   : nullptr;
}

/// A call of a device backend without a stream is done when it returns.
bool returns_early(DeviceType device, Stream stream) {
    return device != DeviceType::cpu && stream.is_given();
}

/// Within a catch clause.
[[noreturn]] void rethrow(const FlightRing& ring, const GenerationWatch* watch) {
    if (watch != nullptr)
        watch->throw_if_explained();
    rethrow_with_calls(ring);
}

/// Runs it, and says how it ended before anybody else can learn that.
template <class End, class Run>
void run_recorded(const FlightRing& ring, const GenerationWatch* watch, End end, Run run) {
    try {
        run();
        end(false);
    } catch (...) {
        end(true);
        rethrow(ring, watch);
    }
}

}  // namespace

Work CallDispatcher::submit(const CollectiveCall& call, Stream stream) {
    if (grouping_) {
        if (stream.is_given())
            group_stream_ = stream;
        group_.push_back(call);
        return {};
    }
    const FlightCall recorded = flight_call(call, device_);
    if (CpuQueue* queue = queue_of(stream)) {
        return enqueue(*queue, {ring_->enqueue(recorded, false)},
                       [call](CommunicatorBackend& backend) { backend.start(call, {}); });
    }
    FlightRing::Entry entry = begin(recorded);
    try {
        Work work = backend_->start(call, stream);
        if (returns_early(device_, stream) && ring_->records())
            return record_end(std::move(work), ring_, {entry});
        ring_->end(entry, false);
        return work;
    } catch (...) {
        fail(entry);
    }
}

void CallDispatcher::barrier() {
    if (grouping_)
        throw Error(ErrorCode::invalid_argument, "barrier: a group is open",
                    "call group_end() first");
    run(flight_call(flight::Kind::barrier), [](CommunicatorBackend& backend) {
        backend.barrier();
        return true;
    });
}

// The call is in the recorder before it waits for others: a wait that never ends is to be seen.
FlightRing::Entry CallDispatcher::begin(const FlightCall& call) {
    const bool at_once = last_ == nullptr;
    FlightRing::Entry entry = ring_->enqueue(call, at_once);
    if (at_once)
        return entry;
    try {
        drain();
    } catch (...) {
        ring_->end(entry, true);
        throw;
    }
    ring_->start(entry);
    return entry;
}

void CallDispatcher::fail(FlightRing::Entry& entry) {
    ring_->end(entry, true);
    rethrow(*ring_, watch_.get());
}

void CallDispatcher::group_start() {
    if (grouping_)
        throw Error(ErrorCode::invalid_argument, "group_start: a group is open already",
                    "groups do not nest");
    grouping_ = true;
    group_stream_ = {};
}

Work CallDispatcher::group_end(Stream stream) {
    if (!grouping_)
        throw Error(ErrorCode::invalid_argument, "group_end: no group is open",
                    "call group_start() first");
    grouping_ = false;
    if (!stream.is_given())
        stream = group_stream_;
    std::vector<CollectiveCall> calls = std::exchange(group_, {});
    if (calls.empty())
        return {};
    Entries entries;
    entries.reserve(calls.size());
    for (const CollectiveCall& call : calls)
        entries.push_back(ring_->enqueue(flight_call(call, device_), false));
    if (CpuQueue* queue = queue_of(stream)) {
        return enqueue(*queue, std::move(entries),
                       [calls = std::move(calls)](CommunicatorBackend& backend) {
                           backend.start_group(calls, {});
                       });
    }
    try {
        drain();
        for (auto& entry : entries)
            ring_->start(entry);
        Work work = backend_->start_group(calls, stream);
        if (returns_early(device_, stream) && ring_->records())
            return record_end(std::move(work), ring_, std::move(entries));
        for (auto& entry : entries)
            ring_->end(entry, false);
        return work;
    } catch (...) {
        for (auto& entry : entries)
            ring_->end(entry, true);
        rethrow(*ring_, watch_.get());
    }
}

void CallDispatcher::drain() {
    if (!last_)
        return;
    const auto last = std::exchange(last_, nullptr);
    last->wait();
}

Work CallDispatcher::enqueue(CpuQueue& queue, Entries entries,
                             std::function<void(CommunicatorBackend&)> start) {
    auto work = std::make_shared<QueuedWork>();
    // On the same queue the one before has run already; on another one it may take its time.
    queue.run([work, before = last_, backend = backend_, ring = ring_, watch = watch_,
               entries = std::move(entries), start = std::move(start)]() mutable {
        const auto end = [&](bool failed) {
            for (auto& entry : entries)
                ring->end(entry, failed);
        };
        try {
            if (before)
                before->wait();
            for (auto& entry : entries)
                ring->start(entry);
            run_recorded(*ring, watch.get(), end, [&] { start(*backend); });
            work->complete(nullptr);
        } catch (...) {
            end(true);
            work->complete(std::current_exception());
        }
    });
    last_ = work;
    return Work(work);
}

}  // namespace autolaunch
