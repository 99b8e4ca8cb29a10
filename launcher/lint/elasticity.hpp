#pragma once
#include "lint/subject.hpp"

#include <optional>

namespace autolaunch::launcher {

/// With how many nodes a launch may go on, and how many it can use.
struct NodeRange {
    long long fewest = 1, most = 1, spares = 0;

    long long all() const { return most + spares; }
};
/// Of an `srun autolaunch` that may lose nodes: --nnodes MIN:MAX, --spare-nodes, or its spec's
/// resource_management.nodes. Nothing: every node is needed.
std::optional<NodeRange> elastic_range(const Launch& launch, const Subject& subject);

}  // namespace autolaunch::launcher
