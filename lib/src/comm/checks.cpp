#include "comm/checks.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <cstdint>

namespace autolaunch::checks {
namespace {

constexpr std::size_t kWidest =
    8;  // bytes of an element; saves the division, which takes as long as all other checks

void buffer(const CollectiveCall& call, std::string_view name, const void* data,
            std::size_t count) {
    constexpr auto kMostBytes = static_cast<std::size_t>(PTRDIFF_MAX);
    if (count > kMostBytes / kWidest && count > kMostBytes / call.element_bytes()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: {} has more elements of {} than memory can hold",
                                describe(call), name, name_of(call.type)),
                    "a negative count, converted to std::size_t, looks like this");
    }
    if (data == nullptr && count != 0) {
        throw Error(ErrorCode::invalid_argument, fmt::format("{}: {} is null, but has {} elements",
                                                             name_of(call.kind), name, count));
    }
}

void apart(const CollectiveCall& call, const BufferExtents& extents) {
    if (extents.in_place || extents.send == 0 || extents.recv == 0)
        return;
    const auto send_at = reinterpret_cast<std::uintptr_t>(call.send);
    const auto recv_at = reinterpret_cast<std::uintptr_t>(call.recv);
    if (send_at < recv_at + extents.recv * call.element_bytes() &&
        recv_at < send_at + extents.send * call.element_bytes()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: send and recv overlap, but not in place", name_of(call.kind)),
                    "pass the same memory as the function's in-place form says, or memory apart");
    }
}

bool has_root(CollectiveKind kind) {
    return kind == CollectiveKind::reduce || kind == CollectiveKind::broadcast ||
           kind == CollectiveKind::gather || kind == CollectiveKind::scatter;
}

bool has_peer(CollectiveKind kind) {
    return kind == CollectiveKind::send || kind == CollectiveKind::recv;
}

void root(const CollectiveCall& call, int rank, int size) {
    if (!has_root(call.kind) && !has_peer(call.kind))
        return;
    const char* role = has_peer(call.kind) ? "peer" : "root";
    if (call.root < 0 || call.root >= size) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: {} {} is not a rank of this group of {}", name_of(call.kind),
                                role, call.root, size));
    }
    if (has_peer(call.kind) && call.root == rank) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: rank {} names itself as its peer", name_of(call.kind), rank),
                    "copy the memory instead");
    }
}

}  // namespace

void call(const CollectiveCall& call, int rank, int size) {
    if (call.element_bytes() == 0) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: {} is not a data type", name_of(call.kind), int(call.type)));
    }
    if (call.op.kind() > ReduceOp::Kind::pre_multiplied_sum) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: {} is not a reduce operation", name_of(call.kind),
                                int(call.op.kind())));
    }
    root(call, rank, size);
    const BufferExtents extents = extents_of(call, rank);
    buffer(call, "send", call.send, extents.send);
    buffer(call, "recv", call.recv, extents.recv);
    apart(call, extents);
}

void counts(CollectiveKind kind, std::span<const std::size_t> counts, int size) {
    if (counts.size() == static_cast<std::size_t>(size))
        return;
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: {} counts for a group of {} ranks", name_of(kind), counts.size(), size),
        "pass one count for every rank, 0 for those without a block");
}

void stream(std::string_view function, Stream stream, DeviceType backend_device,
            std::string_view backend) {
    if (stream.device().type == backend_device || !stream.is_given())
        return;
    const char* wanted = backend_device == DeviceType::cpu ? "CPU" : "CUDA";
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: backend {} works on {} streams only", function, backend, wanted));
}

}  // namespace autolaunch::checks
