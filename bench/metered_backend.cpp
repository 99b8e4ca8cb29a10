#include "metered_backend.hpp"

#include "seconds_since.hpp"

#include <autolaunch/error.hpp>

#include <chrono>
#include <utility>

namespace autolaunch::bench {

/// One communicator, and the calls of a step that went through it.
class CallMeter::Group {
public:
    explicit Group(Communicator communicator) : communicator_(std::move(communicator)) {}

    Communicator& communicator() noexcept { return communicator_; }
    std::vector<CollectiveCall>& calls() noexcept { return calls_; }

    void run(const CollectiveCall& call) {
        Communicator& to = communicator_;
        switch (call.kind) {
            case CollectiveKind::all_gather:
                return to.all_gather(call.send, call.recv, call.blocks.each(), call.type).wait();
            case CollectiveKind::reduce_scatter:
                return to
                    .reduce_scatter(call.send, call.recv, call.blocks.each(), call.type, call.op)
                    .wait();
            case CollectiveKind::all_reduce:
                return to.all_reduce(call.send, call.recv, call.count, call.type, call.op).wait();
            case CollectiveKind::broadcast:
                return to.broadcast(call.recv, call.count, call.type, call.root).wait();
            default:
                throw Error(ErrorCode::unsupported, "a training step has no such call");
        }
    }

private:
    Communicator communicator_;
    std::vector<CollectiveCall> calls_;
};

namespace {

using Clock = std::chrono::steady_clock;

// Up to this size a call may be about a variable that is gone when the call is repeated.
constexpr std::size_t kVariableBytes = 1024;

std::size_t bytes_about(const CollectiveCall& call) {
    const bool blocks =
        call.kind == CollectiveKind::all_gather || call.kind == CollectiveKind::reduce_scatter;
    return (blocks ? call.blocks.total() : call.count) * call.element_bytes();
}

class MeteredBackend final : public CommunicatorBackend {
public:
    MeteredBackend(const Communicator& inner, std::shared_ptr<CallMeter> meter)
        : group_(std::make_shared<CallMeter::Group>(inner)),
          meter_(std::move(meter)),
          name_(inner.backend()) {
        meter_->add_group(group_);
    }

    std::string_view name() const noexcept override { return name_; }
    int rank() const noexcept override { return group_->communicator().rank(); }
    int size() const noexcept override { return group_->communicator().size(); }
    DeviceType device_type() const noexcept override { return DeviceType::cpu; }

    Work start(const CollectiveCall& call, Stream) override {
        if (meter_->is_silent())
            return {};
        group_->run(call);
        meter_->keep(*group_, call);
        return {};
    }
    Work start_group(std::span<const CollectiveCall>, Stream) override {
        throw Error(ErrorCode::unsupported, "a training step has no groups of calls");
    }
    void barrier() override { group_->communicator().barrier(); }
    std::shared_ptr<void> allocate(std::size_t bytes) override {
        auto buffer = std::make_shared<CommunicatorBuffer>(group_->communicator().allocate(bytes));
        return {buffer, buffer->data()};
    }
    std::shared_ptr<CommunicatorBackend> split(int color, int key) override {
        const auto part = group_->communicator().split(color, key);
        return part ? std::make_shared<MeteredBackend>(*part, meter_) : nullptr;
    }
    void abort(const std::string& reason) override { group_->communicator().abort(reason); }
    CommunicatorStatus status() const override { return group_->communicator().status(); }

private:
    std::shared_ptr<CallMeter::Group> group_;
    std::shared_ptr<CallMeter> meter_;
    std::string name_;
};

}  // namespace

void CallMeter::record(bool on) {
    const std::scoped_lock lock(mutex_);
    recording_ = on;
    if (!on)
        return;
    for (const auto& group : groups_)
        group->calls().clear();
}

void CallMeter::Totals::add(bool gather, double seconds) {
    (gather ? gather_s : reduce_s) += seconds;
    if (!gather)
        last_reduce_s = seconds;
    if (gather && first_gather_s == 0)
        first_gather_s = seconds;
}

// Calls of one group follow each other alike on all ranks, but not those of different groups: so
// group by group.
CallMeter::Totals CallMeter::replay(Communicator& world, std::size_t ahead) {
    Totals totals;
    for (const auto& group : groups_) {
        const auto& calls = group->calls();
        const bool gathers = !calls.empty() && calls.back().kind == CollectiveKind::all_gather;
        const std::size_t surplus = !gathers || ahead == 0 ? 0 : calls.size() % 2 == 0 ? ahead : 1;
        world.barrier();
        for (std::size_t i = 0; i < (calls.size() - surplus) / 2; ++i) {
            const auto begin = Clock::now();
            group->run(calls[i]);
            totals.add(calls[i].kind == CollectiveKind::all_gather, seconds_since(begin));
        }
    }
    return totals;
}

void CallMeter::add_group(std::shared_ptr<Group> group) {
    const std::scoped_lock lock(mutex_);
    groups_.push_back(std::move(group));
}

void CallMeter::keep(Group& group, const CollectiveCall& call) {
    const std::scoped_lock lock(mutex_);
    if (recording_ && bytes_about(call) > kVariableBytes)
        group.calls().push_back(call);
}

Communicator metered(const Communicator& world, const std::shared_ptr<CallMeter>& meter) {
    return Communicator(std::make_shared<MeteredBackend>(world, meter));
}

}  // namespace autolaunch::bench
