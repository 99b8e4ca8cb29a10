#include "comm/call_dispatcher.hpp"

#include <autolaunch/error.hpp>

#include <exception>
#include <utility>

namespace autolaunch {
namespace {

CpuQueue* queue_of(Stream stream) {
    return stream.device().type == DeviceType::cpu ? static_cast<CpuQueue*>(stream.handle()) : nullptr;
}

}  // namespace

Work CallDispatcher::submit(CollectiveCall call, Stream stream) {
    if (grouping_) {
        if (stream.handle() != nullptr) group_stream_ = stream;
        group_.push_back(std::move(call));
        return {};
    }
    if (CpuQueue* queue = queue_of(stream)) {
        return enqueue(*queue, [call = std::move(call)](CommunicatorBackend& backend) { backend.start(call, {}); });
    }
    drain();
    return backend_->start(call, stream);
}

void CallDispatcher::barrier() {
    if (grouping_) throw Error(ErrorCode::invalid_argument, "barrier: a group is open", "call group_end() first");
    drain();
    backend_->barrier();
}

void CallDispatcher::group_start() {
    if (grouping_)
        throw Error(ErrorCode::invalid_argument, "group_start: a group is open already", "groups do not nest");
    grouping_ = true;
    group_stream_ = {};
}

Work CallDispatcher::group_end(Stream stream) {
    if (!grouping_) throw Error(ErrorCode::invalid_argument, "group_end: no group is open", "call group_start() first");
    grouping_ = false;
    if (stream.handle() == nullptr) stream = group_stream_;
    std::vector<CollectiveCall> calls = std::exchange(group_, {});
    if (calls.empty()) return {};
    if (CpuQueue* queue = queue_of(stream)) {
        return enqueue(*queue,
                       [calls = std::move(calls)](CommunicatorBackend& backend) { backend.start_group(calls, {}); });
    }
    drain();
    return backend_->start_group(calls, stream);
}

void CallDispatcher::drain() {
    if (!last_) return;
    const auto last = std::exchange(last_, nullptr);
    last->wait();
}

Work CallDispatcher::enqueue(CpuQueue& queue, std::function<void(CommunicatorBackend&)> start) {
    auto work = std::make_shared<QueuedWork>();
    // On the same queue the one before has run already; on another one it may take its time.
    queue.run([work, before = last_, backend = backend_, start = std::move(start)] {
        try {
            if (before) before->wait();
            start(*backend);
            work->complete(nullptr);
        } catch (...) {
            work->complete(std::current_exception());
        }
    });
    last_ = work;
    return Work(work);
}

}  // namespace autolaunch
