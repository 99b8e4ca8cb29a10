#pragma once
#include "checkpoint/commit/node_catalog.hpp"
#include "checkpoint/format/read_plan.hpp"
#include "checkpoint/load/read_keys.hpp"

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace autolaunch {

/// Where the files of a checkpoint are, when each node has a directory of its own. The same on
/// every rank, but for `here`.
struct NodeSources {
    NodeCheckpoint held;         ///< by whom
    std::filesystem::path here;  ///< this node's part of it
    std::filesystem::path far;   ///< a further place's whole one; empty when there is none
    std::vector<std::filesystem::path> further = {};  ///< and where else it is
    std::string manifest_text;
};

/// Copies the parts: what this node has from there, the rest from the second place, and what is not
/// there from the node that has it, which reads each such block once and broadcasts it. The ranks
/// of a node share what all need, as read_parts_in_group() has it. Collective over `world`; throws
/// on every rank when any rank fails. Blocks: in storage and collectives.
void read_parts_of_nodes(Communicator& world, Storage& storage, const NodeSources& sources,
                         const std::vector<int>& leaders, const Manifest& manifest,
                         std::span<const ReadPart> parts, std::optional<Communicator>& group,
                         const ReadKeys& keys);

}  // namespace autolaunch
