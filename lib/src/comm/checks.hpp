#pragma once
// The argument checks that every backend may rely on. Pure; each throws Error{invalid_argument} naming the function.
#include <autolaunch/comm/device.hpp>
#include <autolaunch/comm/types.hpp>

#include <cstddef>
#include <string_view>

namespace autolaunch::checks {

/// A buffer of blocks * count elements: the type is known, the size fits in memory (a negative count, converted, does
/// not), the pointer is not null unless it is empty. Returns the size in bytes.
std::size_t buffer(std::string_view function, std::string_view name, const void* data, std::size_t count,
                   std::size_t blocks, DataType type);
void op(std::string_view function, ReduceOp op);
/// `in_place` is the one way in which the two may meet.
void apart(std::string_view function, const void* send, std::size_t send_bytes, const void* recv,
           std::size_t recv_bytes, bool in_place);
/// `name` is "root" or "peer".
void in_range(std::string_view function, std::string_view name, int rank, int size);
void not_self(std::string_view function, int peer, int rank);
void stream(std::string_view function, Stream stream, DeviceType backend_device, std::string_view backend);

}  // namespace autolaunch::checks
