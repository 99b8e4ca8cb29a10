// Communicator: a call becomes a CollectiveCall, is checked once for all backends, and goes to the
// dispatcher.
#include "comm/backend.hpp"
#include "comm/call_dispatcher.hpp"
#include "comm/checks.hpp"
#include "comm/communicator_device.hpp"

#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/error.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace autolaunch {
namespace {

// Field by field: an aggregate of this size is cleared as a whole by instructions that take a tenth
// of a small call.
CollectiveCall call_of(CollectiveKind kind, const void* send, void* recv, DataType type,
                       int root = -1) {
    CollectiveCall call;
    call.kind = kind;
    call.send = send;
    call.recv = recv;
    call.type = type;
    call.root = root;
    return call;
}

BlockCounts ragged(CollectiveKind kind, std::span<const std::size_t> counts, int size) {
    checks::counts(kind, counts, size);
    return BlockCounts::ragged(counts);
}

}  // namespace

Communicator::Communicator(std::shared_ptr<CommunicatorBackend> backend)
    : Communicator(std::move(backend), {}, {}, {}) {}

Communicator::Communicator(std::shared_ptr<CommunicatorBackend> backend,
                           std::shared_ptr<FlightRecorder> recorder, const std::string& name,
                           std::shared_ptr<GenerationWatch> watch)
    : backend_(std::move(backend)) {
    if (!backend_)
        throw Error(ErrorCode::invalid_argument, "Communicator: the backend is null");
    FlightRing ring(std::move(recorder), name, backend_->rank(), backend_->size(),
                    backend_->name());
    dispatcher_ = std::make_shared<CallDispatcher>(backend_, std::move(ring), std::move(watch));
}

int Communicator::rank() const noexcept { return dispatcher_->rank(); }
int Communicator::size() const noexcept { return dispatcher_->size(); }
std::string_view Communicator::backend() const& noexcept { return backend_->name(); }

Work Communicator::submit(const CollectiveCall& call, Stream stream) {
    checks::call(call, rank(), size());
    if (stream.is_given())
        checks::stream(name_of(call.kind), stream, dispatcher_->device_type(), backend());
    return dispatcher_->submit(call, stream);
}

Work Communicator::all_reduce(const void* send, void* recv, std::size_t count, DataType type,
                              ReduceOp op, Stream stream) {
    CollectiveCall call = call_of(CollectiveKind::all_reduce, send, recv, type);
    call.count = count;
    call.op = op;
    return submit(call, stream);
}

Work Communicator::reduce(const void* send, void* recv, std::size_t count, DataType type,
                          ReduceOp op, int root, Stream stream) {
    CollectiveCall call = call_of(CollectiveKind::reduce, send, recv, type, root);
    call.count = count;
    call.op = op;
    return submit(call, stream);
}

Work Communicator::broadcast(void* buffer, std::size_t count, DataType type, int root,
                             Stream stream) {
    CollectiveCall call = call_of(CollectiveKind::broadcast, nullptr, buffer, type, root);
    call.count = count;
    return submit(call, stream);
}

Work Communicator::all_gather(const void* send, void* recv, std::size_t send_count, DataType type,
                              Stream stream) {
    CollectiveCall call = call_of(CollectiveKind::all_gather, send, recv, type);
    call.blocks = BlockCounts::uniform(send_count, size());
    return submit(call, stream);
}

Work Communicator::all_gather_v(const void* send, void* recv, std::span<const std::size_t> counts,
                                DataType type, Stream stream) {
    CollectiveCall call = call_of(CollectiveKind::all_gather, send, recv, type);
    call.blocks = ragged(call.kind, counts, size());
    return submit(call, stream);
}

Work Communicator::reduce_scatter(const void* send, void* recv, std::size_t recv_count,
                                  DataType type, ReduceOp op, Stream stream) {
    CollectiveCall call = call_of(CollectiveKind::reduce_scatter, send, recv, type);
    call.blocks = BlockCounts::uniform(recv_count, size());
    call.op = op;
    return submit(call, stream);
}

Work Communicator::reduce_scatter_v(const void* send, void* recv,
                                    std::span<const std::size_t> counts, DataType type, ReduceOp op,
                                    Stream stream) {
    CollectiveCall call = call_of(CollectiveKind::reduce_scatter, send, recv, type);
    call.blocks = ragged(call.kind, counts, size());
    call.op = op;
    return submit(call, stream);
}

Work Communicator::all_to_all(const void* send, void* recv, std::size_t count_per_rank,
                              DataType type, Stream stream) {
    CollectiveCall call = call_of(CollectiveKind::all_to_all, send, recv, type);
    call.blocks = BlockCounts::uniform(count_per_rank, size());
    call.recv_blocks = call.blocks;
    return submit(call, stream);
}

Work Communicator::all_to_all_v(const void* send, std::span<const std::size_t> send_counts,
                                void* recv, std::span<const std::size_t> recv_counts, DataType type,
                                Stream stream) {
    CollectiveCall call = call_of(CollectiveKind::all_to_all, send, recv, type);
    call.blocks = ragged(call.kind, send_counts, size());
    call.recv_blocks = ragged(call.kind, recv_counts, size());
    return submit(call, stream);
}

Work Communicator::gather(const void* send, void* recv, std::size_t send_count, DataType type,
                          int root, Stream stream) {
    CollectiveCall call = call_of(CollectiveKind::gather, send, recv, type, root);
    call.blocks = BlockCounts::uniform(send_count, size());
    return submit(call, stream);
}

Work Communicator::gather_v(const void* send, void* recv, std::span<const std::size_t> counts,
                            DataType type, int root, Stream stream) {
    CollectiveCall call = call_of(CollectiveKind::gather, send, recv, type, root);
    call.blocks = ragged(call.kind, counts, size());
    return submit(call, stream);
}

Work Communicator::scatter(const void* send, void* recv, std::size_t recv_count, DataType type,
                           int root, Stream stream) {
    CollectiveCall call = call_of(CollectiveKind::scatter, send, recv, type, root);
    call.blocks = BlockCounts::uniform(recv_count, size());
    return submit(call, stream);
}

Work Communicator::scatter_v(const void* send, void* recv, std::span<const std::size_t> counts,
                             DataType type, int root, Stream stream) {
    CollectiveCall call = call_of(CollectiveKind::scatter, send, recv, type, root);
    call.blocks = ragged(call.kind, counts, size());
    return submit(call, stream);
}

Work Communicator::send(const void* buffer, std::size_t count, DataType type, int peer,
                        Stream stream) {
    CollectiveCall call = call_of(CollectiveKind::send, buffer, nullptr, type, peer);
    call.count = count;
    return submit(call, stream);
}

Work Communicator::recv(void* buffer, std::size_t count, DataType type, int peer, Stream stream) {
    CollectiveCall call = call_of(CollectiveKind::recv, nullptr, buffer, type, peer);
    call.count = count;
    return submit(call, stream);
}

void Communicator::set_label(std::string_view label) noexcept { dispatcher_->set_label(label); }
std::string_view Communicator::label() const& noexcept { return dispatcher_->ring().label(); }

void Communicator::barrier() { dispatcher_->barrier(); }

void Communicator::group_start() { dispatcher_->group_start(); }

Work Communicator::group_end(Stream stream) {
    checks::stream("group_end", stream, backend_->device_type(), backend());
    return dispatcher_->group_end(stream);
}

CommunicatorBuffer Communicator::allocate(std::size_t bytes) {
    return {dispatcher_->run(flight_call(flight::Kind::allocate, bytes),
                             [&](CommunicatorBackend& backend) { return backend.allocate(bytes); }),
            bytes};
}

std::optional<Communicator> Communicator::split(int color, int key) {
    auto part =
        dispatcher_->run(flight_call(flight::Kind::split),
                         [&](CommunicatorBackend& backend) { return backend.split(color, key); });
    const std::string name = dispatcher_->name_part(std::to_string(color));
    if (!part)
        return std::nullopt;
    return Communicator(std::move(part), dispatcher_->ring().recorder(), name,
                        dispatcher_->watch());
}

Communicator Communicator::shrink(std::span<const int> lost_ranks) {
    std::vector<int> lost(lost_ranks.begin(), lost_ranks.end());
    std::sort(lost.begin(), lost.end());
    lost.erase(std::unique(lost.begin(), lost.end()), lost.end());
    for (const int one : lost)
        if (one < 0 || one >= size() || one == rank())
            throw Error(ErrorCode::invalid_argument, "shrink: rank " + std::to_string(one) +
                                                         " cannot be lost to rank " +
                                                         std::to_string(rank()));
    dispatcher_->forget_queued();
    auto rest =
        dispatcher_->run(flight_call(flight::Kind::shrink),
                         [&](CommunicatorBackend& backend) { return backend.shrink(lost); });
    return Communicator(std::move(rest), dispatcher_->ring().recorder(),
                        dispatcher_->name_part("rest"), dispatcher_->watch());
}

void Communicator::abort(const std::string& reason) { backend_->abort(reason); }
CommunicatorStatus Communicator::status() const { return backend_->status(); }
void Communicator::check() const { backend_->check(); }

std::shared_ptr<CudaDevice> cuda_device_of(const Communicator& communicator) {
    return communicator.backend_->cuda_device();
}

}  // namespace autolaunch
