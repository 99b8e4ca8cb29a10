#pragma once
#include <autolaunch/checkpoint/opaque_state.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>

#include <span>

namespace autolaunch {

/// What a trainer could get wrong about one rank's state: throws Error{invalid_argument} with the
/// tensor's name.
void require_valid(const fsdp::State& state);
/// The same for opaque state.
void require_valid(std::span<const OpaqueState> opaque);

}  // namespace autolaunch
