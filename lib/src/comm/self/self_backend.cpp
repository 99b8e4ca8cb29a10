#include "comm/self/self_backend.hpp"

#include "comm/reduce.hpp"

#include <array>
#include <cstring>

namespace autolaunch {

Work SelfBackend::start(const CollectiveCall& call, Stream) {
    abort_state_.throw_if_aborted();
    const std::size_t count = extents_of(call, 0).send;
    if (call.send == nullptr || count == 0)
        return {};  // broadcast, or nothing at all
    if (reduces(call.kind) && call.op.factor() != 1) {
        const std::array inputs = {call.send};
        const std::array outputs = {call.recv};
        const std::array factors = {call.op.factor()};
        reduce_elements({.inputs = inputs, .factors = factors, .outputs = outputs}, count,
                        call.type, call.op);
    } else if (call.send != call.recv) {
        std::memcpy(call.recv, call.send, count * call.element_bytes());
    }
    return {};
}

Work SelfBackend::start_group(std::span<const CollectiveCall> calls, Stream) {
    for (const CollectiveCall& call : calls)
        start(call, {});
    return {};
}

void SelfBackend::barrier() { abort_state_.throw_if_aborted(); }

std::shared_ptr<CommunicatorBackend> SelfBackend::split(int color, int) {
    abort_state_.throw_if_aborted();
    return color < 0 ? nullptr : std::make_shared<SelfBackend>();
}

std::shared_ptr<CommunicatorBackend> SelfBackend::shrink(std::span<const int>) {
    abort_state_.abort("the group was shrunk");
    return std::make_shared<SelfBackend>();
}

void SelfBackend::abort(const std::string& reason) { abort_state_.abort(reason); }
CommunicatorStatus SelfBackend::status() const { return abort_state_.status(); }

}  // namespace autolaunch
