#pragma once
// The argument checks that every backend may rely on. Pure; each throws Error{invalid_argument}
// naming the function.
#include "comm/call.hpp"

#include <autolaunch/comm/device.hpp>

#include <cstddef>
#include <span>
#include <string_view>

namespace autolaunch::checks {

/// As rank `rank` of `size`: the type and the operation exist; each buffer fits in memory (a
/// negative count, converted, does not) and is not null unless it is empty; send and recv are in
/// place or apart; the root or peer is in range, and a peer is not this rank.
void call(const CollectiveCall& call, int rank, int size);
/// Ragged counts: one for every rank.
void counts(CollectiveKind kind, std::span<const std::size_t> counts, int size);
void stream(std::string_view function, Stream stream, DeviceType backend_device,
            std::string_view backend);

}  // namespace autolaunch::checks
