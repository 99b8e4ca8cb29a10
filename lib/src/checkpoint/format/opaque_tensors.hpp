#pragma once
#include <autolaunch/checkpoint/manifest.hpp>
#include <autolaunch/checkpoint/opaque_state.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>

#include <span>
#include <string>
#include <vector>

namespace autolaunch {

// How opaque state becomes tensors. Pure.

/// "opaque.<name>", or "opaque.<name>.rank-00003".
std::string opaque_tensor_name(const std::string& name, bool per_rank, int rank);

/// What this rank saves of it, as U8 tensors that point at the bytes. One of no bytes has the shape
/// [0] and no piece.
fsdp::State opaque_tensors(std::span<const OpaqueState> opaque, int rank);

/// The tensors that were saved under a name: one for all ranks, or one of each rank, by rank. Empty
/// when there is none.
std::vector<const Manifest::Tensor*> find_opaque(const Manifest& manifest, const std::string& name);

}  // namespace autolaunch
