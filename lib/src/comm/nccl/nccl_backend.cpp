#include "comm/nccl/nccl_backend.hpp"

#include "comm/nccl/backoff.hpp"
#include "comm/split_plan.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

namespace autolaunch {
namespace {

// What an aborted call left behind ends when NCCL's kernels do.
constexpr std::chrono::seconds kLongestRest{10};

class NcclWork final : public Work::State {
public:
    NcclWork(std::shared_ptr<NcclGroup> group, NcclGroup::Operation operation)
        : group_(std::move(group)), operation_(std::move(operation)) {}

    bool is_completed() const override { return group_->is_over(operation_); }
    void wait() override { group_->wait(operation_); }
    bool wait_for(std::chrono::nanoseconds timeout) override {
        const auto now = std::chrono::steady_clock::now();
        const auto far = std::chrono::steady_clock::time_point::max() - now;
        return group_->wait(operation_, now + std::min<std::chrono::nanoseconds>(timeout, far));
    }

private:
    std::shared_ptr<NcclGroup> group_;
    NcclGroup::Operation operation_;
};

/// NCCL's operation of one call: its own, or one made for a factor, which is destroyed here.
class Operation {
public:
    Operation(NcclGroup& group, const CollectiveCall& call) : group_(group), op_(nccl_op(call.op)) {
        if (!reduces(call.kind) || call.op.kind() != ReduceOp::Kind::pre_multiplied_sum)
            return;
        ScalarBytes factor = scalar_bytes(call.type, call.op.factor());
        group_.run([] { return "the making of an operation"; },
                   [&](ncclComm_t comm) {
                       return group_.runtime().nccl.RedOpCreatePreMulSum(
                           &op_, &factor, nccl_type(call.type), ncclScalarHostImmediate, comm);
                   });
        is_made_ = true;
    }
    ~Operation() {
        if (!is_made_)
            return;
        try {
            group_.run([] { return "the end of an operation"; },
                       [&](ncclComm_t comm) {
                           group_.runtime().nccl.RedOpDestroy(op_, comm);
                           return ncclSuccess;
                       });
        } catch (const Error&) {  // the group has failed, and its operations are gone with it
        }
    }
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

    ncclRedOp_t get() const noexcept { return op_; }

private:
    NcclGroup& group_;
    ncclRedOp_t op_;
    bool is_made_ = false;
};

bool moves_between_two(const CollectiveCall& call) {
    return call.kind == CollectiveKind::send || call.kind == CollectiveKind::recv;
}

/// A group in parts that may go one after the other: the n-th message to and from each rank, which
/// are n-th there, too; then the collectives.
std::vector<std::vector<CollectiveCall>> rounds_of(std::span<const CollectiveCall> calls) {
    std::vector<std::vector<CollectiveCall>> rounds;
    std::vector<CollectiveCall> collectives;
    std::map<std::pair<CollectiveKind, int>, std::size_t>
        messages;  // so far, by direction and peer
    for (const CollectiveCall& call : calls) {
        if (!moves_between_two(call)) {
            collectives.push_back(call);
            continue;
        }
        const std::size_t round = messages[{call.kind, call.root}]++;
        if (rounds.size() == round)
            rounds.emplace_back();
        rounds[round].push_back(call);
    }
    if (!collectives.empty())
        rounds.push_back(std::move(collectives));
    return rounds;
}

}  // namespace

std::shared_ptr<NcclBackend> NcclBackend::create(const NcclRendezvous& rendezvous,
                                                 const std::string& name, int rank, int size,
                                                 const NcclOptions& options) {
    auto runtime = std::make_shared<NcclRuntime>();
    // NCCL first: without it no CUDA context is made.
    if (size > 1)
        runtime->nccl = NcclLibrary::load(options.nccl_library);
    runtime->device = CudaDevice::open(options.cuda_library, options.device_index);
    runtime->rendezvous = rendezvous;
    runtime->timeout = options.timeout;
    runtime->blocking = options.blocking;
    return std::make_shared<NcclBackend>(NcclGroup::connect(runtime, name, rank, size));
}

NcclBackend::NcclBackend(std::shared_ptr<NcclGroup> group)
    : group_(std::move(group)), staging_(group_->runtime().device) {}

// So that a process that ends now does not end under the watchdog's abort. What an abort left on
// the stream still uses the staging memory, which stays for good where the GPU does not come to an
// end.
NcclBackend::~NcclBackend() {
    group_->stop();
    if (!own_stream_)
        return;
    try {
        CudaDevice& device = *group_->runtime().device;
        const CudaDevice::Current current(device);
        device.wait(device.record(own_stream_.get()), kLongestRest);
    } catch (const std::exception&) {
        staging_.abandon();
    }
}

std::function<void(const Deadline&)> NcclBackend::end_of_use() const {
    return [device = group_->runtime().device,
            users = std::weak_ptr(group_->shared_runtime())](const Deadline& deadline) {
        for (Backoff backoff; !users.expired(); backoff.pause())
            if (deadline.passed())
                throw TimeoutError(
                    "a communicator of NCCL is still in use: this process cannot go on",
                    "destroy communicators, and what was made from them, before rejoin()");
        const CudaDevice::Current current(*device);
        const CudaDevice::Stream probe = device->make_stream();
        device->wait(device->record(probe.get()), kLongestRest);
    };
}

NcclPlace NcclBackend::place(CUstream stream) const {
    return {group_->runtime().nccl, *group_->runtime().device, rank(), size(), stream};
}

CUstream NcclBackend::own_stream() {
    if (!own_stream_)
        own_stream_ = group_->runtime().device->make_stream();
    return own_stream_.get();
}

Work NcclBackend::start(const CollectiveCall& call, Stream stream) {
    return start_group({&call, 1}, stream);
}

Work NcclBackend::start_group(std::span<const CollectiveCall> calls, Stream stream) {
    group_->throw_if_aborted();
    CudaDevice& device = *group_->runtime().device;
    const CudaDevice::Current current(device);
    if (stream.device().type == DeviceType::cpu) {
        run_on_host(calls);
        return {};
    }
    if (stream.device().index != device.index()) {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("{}: the stream is of GPU {}, but the communicator of GPU {}",
                        name_of(calls.front().kind), stream.device().index, device.index()));
    }
    const auto handle = static_cast<CUstream>(stream.handle());
    enqueue_group(calls, handle);
    // In a graph nothing happens yet, and CUDA forbids to ask for its events; its launches are the
    // trainer's to wait for.
    if (device.is_capturing(handle))
        return {};
    return Work(std::make_shared<NcclWork>(group_, group_->record(calls.front(), handle)));
}

// In rounds, so that the GPU holds copies of one message for each peer and not of all that there
// are.
void NcclBackend::run_on_host(std::span<const CollectiveCall> calls) {
    const CUstream stream = own_stream();
    CudaDevice& device = *group_->runtime().device;
    for (const auto& round : rounds_of(calls)) {
        const std::vector<CollectiveCall> staged = staging_.copy_in(round, rank(), stream);
        enqueue_group(staged, stream);
        group_->wait(group_->record(round.front(), stream));
        staging_.copy_out(round, staged, rank(), stream);
        // No other rank holds this up; and nothing may write to the caller's memory after the call,
        // whoever aborts now.
        device.wait(device.record(stream), group_->runtime().timeout);
    }
    staging_.free_large();
}

// The messages side by side, then the collectives one by one. In one group NCCL would sort and join
// collectives, which must then be grouped alike on all ranks; what a rank knows of the buffers (a
// root's alone, say) cannot decide that.
void NcclBackend::enqueue_group(std::span<const CollectiveCall> calls, CUstream stream) {
    if (size() == 1) {
        for (const CollectiveCall& call : calls)
            enqueue_alone(place(stream), call);
        return;
    }
    std::vector<CollectiveCall> messages;
    std::copy_if(calls.begin(), calls.end(), std::back_inserter(messages), moves_between_two);
    if (!messages.empty()) {
        group_->run(
            [&] { return describe(messages.front()); },
            [&](ncclComm_t comm) { return enqueue_messages(place(stream), comm, messages); });
    }
    for (const CollectiveCall& call : calls)
        if (!moves_between_two(call))
            enqueue_collective(call, stream);
}

void NcclBackend::enqueue_collective(const CollectiveCall& call, CUstream stream) {
    const NcclPlace where = place(stream);
    const Operation operation(*group_, call);
    CollectiveCall ready = call;
    void* copy = nullptr;
    // NCCL has no all_to_all in place.
    if (call.kind == CollectiveKind::all_to_all && call.send == call.recv && !is_empty(call)) {
        const std::size_t bytes = call.blocks.total() * call.element_bytes();
        copy = where.device.allocate_on(stream, bytes);
        where.device.copy(copy, call.send, bytes, stream);
        ready.send = copy;
    }
    group_->run([&] { return describe(call); },
                [&](ncclComm_t comm) { return enqueue(where, comm, ready, operation.get()); });
    if (copy != nullptr)
        where.device.free_on(stream, copy);
    if (reduces(call.kind) && call.op.kind() == ReduceOp::Kind::avg)
        where.device.scale(Scaling::divide, call.recv, extents_of(call, rank()).recv, call.type,
                           size(), stream);
}

// NCCL has no barrier: an all_reduce of one element.
void NcclBackend::barrier() {
    group_->throw_if_aborted();
    group_->wait_for_all();
    const CudaDevice::Current current(*group_->runtime().device);
    std::uint8_t here = 1;
    const CollectiveCall call{.kind = CollectiveKind::all_reduce,
                              .send = &here,
                              .recv = &here,
                              .count = 1,
                              .type = DataType::u8,
                              .op = ReduceOp::max};
    run_on_host({&call, 1});
}

std::shared_ptr<void> NcclBackend::allocate(std::size_t bytes) {
    group_->throw_if_aborted();
    return group_->allocate(bytes);
}

std::shared_ptr<CommunicatorBackend> NcclBackend::split(int color, int key) {
    group_->throw_if_aborted();
    const CudaDevice::Current current(*group_->runtime().device);
    std::vector<ColorAndKey> wishes(static_cast<std::size_t>(size()));
    const ColorAndKey own{color, key};
    static_assert(sizeof(ColorAndKey) == 2 * sizeof(std::int32_t));
    const CollectiveCall call{.kind = CollectiveKind::all_gather,
                              .send = &own,
                              .recv = wishes.data(),
                              .blocks = BlockCounts::uniform(2, size()),
                              .type = DataType::i32};
    run_on_host({&call, 1});
    std::map<int, int> ranks_of;
    for (const ColorAndKey& wish : wishes)
        if (wish.color >= 0)
            ++ranks_of[wish.color];
    const bool any_pairs = std::any_of(ranks_of.begin(), ranks_of.end(),
                                       [](const auto& part) { return part.second > 1; });
    const SplitPlan plan = plan_split(wishes, rank());
    const std::string name = fmt::format("{}/part/{}/{}", group_->name(), parts_made_++, color);
    auto part = group_->split(name, color, plan.rank, static_cast<int>(plan.parent_ranks.size()),
                              any_pairs);
    return part ? std::make_shared<NcclBackend>(std::move(part)) : nullptr;
}

std::shared_ptr<CommunicatorBackend> NcclBackend::shrink(std::span<const int> lost) {
    return std::make_shared<NcclBackend>(group_->shrink(lost));
}

void NcclBackend::abort(const std::string& reason) { group_->abort(reason); }
CommunicatorStatus NcclBackend::status() const { return group_->status(); }

}  // namespace autolaunch
