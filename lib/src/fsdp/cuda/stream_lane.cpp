#include "fsdp/cuda/stream_lane.hpp"

#include <autolaunch/error.hpp>

#include <utility>

namespace autolaunch::fsdp {

StreamLane::StreamLane(std::shared_ptr<CudaDevice> device, std::vector<Communicator> communicators,
                       bool beside)
    : Lane(std::move(communicators)), device_(std::move(device)), beside_(beside) {
    const CudaDevice::Current current(*device_);
    stream_ = device_->make_stream();
}

// The jobs use memory that goes after the lane.
StreamLane::~StreamLane() {
    if (!latest_)
        return;
    try {
        const CudaDevice::Current current(*device_);
        if (device_->is_over(latest_))
            return;
        if (std::uncaught_exceptions() > 0)
            abort("a rank left its training step by an exception");
        device_->wait(latest_, kLongestWait);
    } catch (const std::exception&) {  // the GPU is lost, and what is on it
    }
}

Fence StreamLane::submit(const std::string& unit, std::string_view subject, Job job,
                         std::span<const Fence> after) {
    const CudaDevice::Current current(*device_);
    forget_ended();
    for (const Fence& fence : after)
        if (fence.event)
            device_->wait(stream_.get(), fence.event);
    try {
        run(unit, subject, job, Stream::cuda(device_->index(), stream_.get()));
    } catch (...) {
        failure_ = std::current_exception();
        throw;
    }
    latest_ = device_->record(stream_.get());
    under_way_.push_back({unit + ", " + std::string(subject), latest_});
    return latest();
}

// What ended before the communicators were found in order ended well.
void StreamLane::forget_ended() {
    std::ptrdiff_t ended = 0;
    for (const Submitted& each : under_way_) {
        if (!device_->is_over(each.end))
            break;
        ++ended;
    }
    check();
    under_way_.erase(under_way_.begin(), under_way_.begin() + ended);
}

void StreamLane::check() {
    if (failure_)
        std::rethrow_exception(failure_);
    try {
        for (const Communicator& communicator : communicators_)
            communicator.check();
    } catch (...) {
        std::string where = under_way_.empty() ? "" : "unit " + under_way_.front().name + ": ";
        if (under_way_.size() > 1)
            where.insert(where.size() - 2, ", or a unit after it");
        try {
            fail(where);
        } catch (...) {
            failure_ = std::current_exception();
        }
        std::rethrow_exception(failure_);
    }
}

void StreamLane::synchronize() {
    const CudaDevice::Current current(*device_);
    if (latest_)
        device_->wait(latest_, kLongestWait);
    check();
}

}  // namespace autolaunch::fsdp
