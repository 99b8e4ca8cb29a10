// Communicator: checks the arguments once for all backends, then forwards.
#include "comm/backend.hpp"
#include "comm/checks.hpp"

#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/error.hpp>

namespace autolaunch {
namespace {

const std::byte* block_of(const void* data, int rank, std::size_t count, DataType type) {
    return static_cast<const std::byte*>(data) + static_cast<std::size_t>(rank) * count * size_of(type);
}

}  // namespace

Communicator::Communicator(std::shared_ptr<CommunicatorBackend> backend) : backend_(std::move(backend)) {
    if (!backend_) throw Error(ErrorCode::invalid_argument, "Communicator: the backend is null");
}

int Communicator::rank() const noexcept { return backend_->rank(); }
int Communicator::size() const noexcept { return backend_->size(); }
std::string_view Communicator::backend() const noexcept { return backend_->name(); }

Work Communicator::all_reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op,
                              Stream stream) {
    const std::size_t bytes = checks::buffer("all_reduce", "send", send, count, 1, type);
    checks::buffer("all_reduce", "recv", recv, count, 1, type);
    checks::op("all_reduce", op);
    checks::apart("all_reduce", send, bytes, recv, bytes, send == recv);
    checks::stream("all_reduce", stream, backend_->device_type(), backend());
    return backend_->all_reduce(send, recv, count, type, op, stream);
}

Work Communicator::all_gather(const void* send, void* recv, std::size_t send_count, DataType type, Stream stream) {
    const auto ranks = static_cast<std::size_t>(size());
    const std::size_t recv_bytes = checks::buffer("all_gather", "recv", recv, send_count, ranks, type);
    const std::size_t send_bytes = checks::buffer("all_gather", "send", send, send_count, 1, type);
    const bool in_place = send == block_of(recv, rank(), send_count, type);
    checks::apart("all_gather", send, send_bytes, recv, recv_bytes, in_place);
    checks::stream("all_gather", stream, backend_->device_type(), backend());
    return backend_->all_gather(send, recv, send_count, type, stream);
}

Work Communicator::reduce_scatter(const void* send, void* recv, std::size_t recv_count, DataType type, ReduceOp op,
                                  Stream stream) {
    const auto ranks = static_cast<std::size_t>(size());
    const std::size_t send_bytes = checks::buffer("reduce_scatter", "send", send, recv_count, ranks, type);
    const std::size_t recv_bytes = checks::buffer("reduce_scatter", "recv", recv, recv_count, 1, type);
    checks::op("reduce_scatter", op);
    const bool in_place = recv == block_of(send, rank(), recv_count, type);
    checks::apart("reduce_scatter", send, send_bytes, recv, recv_bytes, in_place);
    checks::stream("reduce_scatter", stream, backend_->device_type(), backend());
    return backend_->reduce_scatter(send, recv, recv_count, type, op, stream);
}

Work Communicator::broadcast(void* buffer, std::size_t count, DataType type, int root, Stream stream) {
    checks::buffer("broadcast", "buffer", buffer, count, 1, type);
    checks::in_range("broadcast", "root", root, size());
    checks::stream("broadcast", stream, backend_->device_type(), backend());
    return backend_->broadcast(buffer, count, type, root, stream);
}

Work Communicator::all_to_all(const void* send, void* recv, std::size_t count_per_rank, DataType type, Stream stream) {
    const auto ranks = static_cast<std::size_t>(size());
    const std::size_t bytes = checks::buffer("all_to_all", "send", send, count_per_rank, ranks, type);
    checks::buffer("all_to_all", "recv", recv, count_per_rank, ranks, type);
    checks::apart("all_to_all", send, bytes, recv, bytes, send == recv);
    checks::stream("all_to_all", stream, backend_->device_type(), backend());
    return backend_->all_to_all(send, recv, count_per_rank, type, stream);
}

Work Communicator::send(const void* buffer, std::size_t count, DataType type, int peer, Stream stream) {
    checks::buffer("send", "buffer", buffer, count, 1, type);
    checks::in_range("send", "peer", peer, size());
    checks::not_self("send", peer, rank());
    checks::stream("send", stream, backend_->device_type(), backend());
    return backend_->send(buffer, count, type, peer, stream);
}

Work Communicator::recv(void* buffer, std::size_t count, DataType type, int peer, Stream stream) {
    checks::buffer("recv", "buffer", buffer, count, 1, type);
    checks::in_range("recv", "peer", peer, size());
    checks::not_self("recv", peer, rank());
    checks::stream("recv", stream, backend_->device_type(), backend());
    return backend_->recv(buffer, count, type, peer, stream);
}

void Communicator::barrier() { backend_->barrier(); }

std::optional<Communicator> Communicator::split(int color, int key) {
    auto part = backend_->split(color, key);
    if (!part) return std::nullopt;
    return Communicator(std::move(part));
}

void Communicator::abort(const std::string& reason) { backend_->abort(reason); }
CommunicatorStatus Communicator::status() const { return backend_->status(); }

}  // namespace autolaunch
