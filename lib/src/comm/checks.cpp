#include "comm/checks.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <functional>

namespace autolaunch::checks {

std::size_t buffer(std::string_view function, std::string_view name, const void* data, std::size_t count,
                   std::size_t blocks, DataType type) {
    const std::size_t element_bytes = size_of(type);
    if (element_bytes == 0) {
        throw Error(ErrorCode::invalid_argument, fmt::format("{}: {} is not a data type", function, int(type)));
    }
    if (count > static_cast<std::size_t>(PTRDIFF_MAX) / element_bytes / blocks) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: {} has {} x {} elements of {}, more than memory can hold", function, name, blocks,
                                count, name_of(type)),
                    "a negative count, converted to std::size_t, looks like this");
    }
    if (data == nullptr && count != 0) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: {} is null, but has {} elements", function, name, count));
    }
    return blocks * count * element_bytes;
}

void op(std::string_view function, ReduceOp op) {
    if (op > ReduceOp::max) {
        throw Error(ErrorCode::invalid_argument, fmt::format("{}: {} is not a reduce operation", function, int(op)));
    }
}

void apart(std::string_view function, const void* send, std::size_t send_bytes, const void* recv,
           std::size_t recv_bytes, bool in_place) {
    if (in_place || send_bytes == 0 || recv_bytes == 0) return;
    const auto send_at = reinterpret_cast<std::uintptr_t>(send);
    const auto recv_at = reinterpret_cast<std::uintptr_t>(recv);
    if (send_at < recv_at + recv_bytes && recv_at < send_at + send_bytes) {
        throw Error(ErrorCode::invalid_argument, fmt::format("{}: send and recv overlap, but not in place", function),
                    "pass the same memory as the function's in-place form says, or memory apart");
    }
}

void in_range(std::string_view function, std::string_view name, int rank, int size) {
    if (rank < 0 || rank >= size) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: {} {} is not a rank of this group of {}", function, name, rank, size));
    }
}

void not_self(std::string_view function, int peer, int rank) {
    if (peer == rank) {
        throw Error(ErrorCode::invalid_argument, fmt::format("{}: rank {} names itself as its peer", function, rank),
                    "copy the memory instead");
    }
}

void stream(std::string_view function, Stream stream, DeviceType backend_device, std::string_view backend) {
    if (stream.device().type == backend_device) return;
    const char* wanted = backend_device == DeviceType::cpu ? "CPU" : "CUDA";
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: backend {} works on {} streams only", function, backend, wanted));
}

}  // namespace autolaunch::checks
