#pragma once
#include "placement_watch/process_placement.hpp"

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Where a rank was to run. An empty list: anywhere that autolaunch itself may.
struct PlannedPlacement {
    std::vector<int> cpus;          ///< sorted
    std::vector<int> memory_nodes;  ///< preferred NUMA nodes
};

/// True when nothing outside of the plan is allowed to the thread: less is the program's own
/// choice.
bool is_within(const std::vector<int>& cpus, const PlannedPlacement& planned);

/// How threads left the plan, as the end of a sentence that begins with the rank: "may run on CPUs
/// 0-7, planned were 0-3 (thread python3, and 3 more)". Nothing: all are within. Pure.
std::optional<std::string> find_cpu_drift(const std::vector<ThreadPlacement>& threads,
                                          const PlannedPlacement& planned);

/// The same of memory: "has 22 % of its memory (3.1 GiB) on NUMA node 1, planned was node 0".
/// Nothing below a tenth or 256 MiB elsewhere: a preferred node that is full, or a buffer that a
/// driver placed, is no drift. Pure.
std::optional<std::string> find_memory_drift(const MemoryPlacement& bytes,
                                             const PlannedPlacement& planned);

}  // namespace autolaunch::launcher
