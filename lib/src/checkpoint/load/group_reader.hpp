#pragma once
#include "checkpoint/format/read_plan.hpp"
#include "checkpoint/load/read_keys.hpp"
#include "checkpoint/storage/storage.hpp"

#include <autolaunch/checkpoint/manifest.hpp>
#include <autolaunch/comm/communicator.hpp>

#include <filesystem>
#include <optional>
#include <span>

namespace autolaunch {

/// The ranks that run on this machine, as a communicator; nothing when this rank is alone there,
/// and with NCCL, which moves device memory only. Collective over `world`.
std::optional<Communicator> ranks_of_this_node(Communicator& world);

/// Copies the parts. A block that all ranks need is read by one member of the group and passed on
/// to the others, so that the group reads it once; and so are the blocks of members that want the
/// very same ones, as replicas do. The others are read by those who want them. Collective over the
/// group, whose members have the same shared parts: where one fails, the others go on, and it
/// throws in the end. Without a group all is read here. Blocks: in storage and collectives.
void read_parts_in_group(Storage& storage, const std::filesystem::path& directory,
                         const Manifest& manifest, std::span<const ReadPart> parts,
                         std::optional<Communicator>& group, const ReadKeys& keys = {});

}  // namespace autolaunch
