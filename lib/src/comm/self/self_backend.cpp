#include "comm/self/self_backend.hpp"

#include "comm/checks.hpp"

#include <cstring>

namespace autolaunch {

Work SelfBackend::copy(const void* send, void* recv, std::size_t count, DataType type) {
    abort_state_.throw_if_aborted();
    if (send != recv && count != 0) std::memcpy(recv, send, count * size_of(type));
    return {};
}

Work SelfBackend::all_reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp, Stream) {
    return copy(send, recv, count, type);
}

Work SelfBackend::all_gather(const void* send, void* recv, std::size_t send_count, DataType type, Stream) {
    return copy(send, recv, send_count, type);
}

Work SelfBackend::reduce_scatter(const void* send, void* recv, std::size_t recv_count, DataType type, ReduceOp,
                                 Stream) {
    return copy(send, recv, recv_count, type);
}

Work SelfBackend::broadcast(void* buffer, std::size_t count, DataType type, int, Stream) {
    return copy(buffer, buffer, count, type);
}

Work SelfBackend::all_to_all(const void* send, void* recv, std::size_t count_per_rank, DataType type, Stream) {
    return copy(send, recv, count_per_rank, type);
}

Work SelfBackend::send(const void*, std::size_t, DataType, int peer, Stream) {
    checks::not_self("send", peer, 0);
    return {};
}

Work SelfBackend::recv(void*, std::size_t, DataType, int peer, Stream) {
    checks::not_self("recv", peer, 0);
    return {};
}

void SelfBackend::barrier() { abort_state_.throw_if_aborted(); }

std::shared_ptr<CommunicatorBackend> SelfBackend::split(int color, int) {
    abort_state_.throw_if_aborted();
    return color < 0 ? nullptr : std::make_shared<SelfBackend>();
}

void SelfBackend::abort(const std::string& reason) { abort_state_.abort(reason); }
CommunicatorStatus SelfBackend::status() const { return abort_state_.status(); }

}  // namespace autolaunch
