#include "fsdp/state_mirror.hpp"

#include <exception>
#include <utility>

namespace autolaunch::fsdp {

namespace {

/// Bytes that have come are no state when a collective that led to them was aborted.
class CheckedArrival final : public StateArrival {
public:
    CheckedArrival(std::shared_ptr<const StateArrival> bytes,
                   std::shared_ptr<const CommunicatorWatch> calls)
        : bytes_(std::move(bytes)), calls_(std::move(calls)) {}

    void wait() const override {
        bytes_->wait();
        calls_->check();
    }

private:
    std::shared_ptr<const StateArrival> bytes_;
    std::shared_ptr<const CommunicatorWatch> calls_;
};

}  // namespace

StateMirror::~StateMirror() {
    try {
        device_.wait(written_back_);
    } catch (const std::exception&) {  // the GPU is lost
    }
}

StateMirror::Reading StateMirror::read(void* memory, std::size_t bytes, Stream stream) {
    if (!device_.is_gpu() || bytes == 0)
        return {memory, nullptr};
    Copy& copy = copies_[memory];
    if (!copy.host.data())
        copy.host = device_.allocate_on_host(bytes);
    if (!lane_)
        lane_ = device_.make_lane({}, true);
    void* to = copy.host.data();
    const auto job = [this, to, memory, bytes](Stream lane) {
        device_.copy(to, memory, bytes, lane);
    };
    const Fence after[] = {device_.record(stream)};
    const Fence arrived = lane_->submit("state", "to the CPU", job, after);
    copy.is_current = true;
    return {to, std::make_shared<CheckedArrival>(device_.arrival_of(arrived), calls_)};
}

void StateMirror::wait_for_copies(Stream stream) {
    if (lane_)
        device_.wait(stream, lane_->latest());
}

void StateMirror::write_back(Stream stream) {
    wait_for_copies(stream);
    for (auto& [memory, copy] : copies_)
        if (copy.is_current)
            device_.copy(memory, copy.host.data(), copy.host.bytes(), stream);
    written_back_ = device_.record(stream);
}

void StateMirror::forget(Stream stream) {
    wait_for_copies(stream);
    for (auto& [memory, copy] : copies_)
        copy.is_current = false;
}

void settle(State& state) {
    for (StateTensor& tensor : state)
        if (const auto arrival = std::exchange(tensor.arrival, nullptr))
            arrival->wait();
}

}  // namespace autolaunch::fsdp
