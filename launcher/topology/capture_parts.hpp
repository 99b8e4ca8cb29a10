#pragma once
#include "topology/node_topology.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// What the readers of captures share. Private to this folder.

/// What any machine has at the most: more is a broken file, or one that is meant to exhaust us.
inline constexpr std::size_t kMostGpus = 512, kMostHcas = 1024;
inline constexpr long long kMostCpus = 16384;

/// Throws Error{invalid_argument} "FILE:LINE: WHAT"; line 0: the file as a whole.
[[noreturn]] void refuse_capture(const std::string& file, int line, const std::string& what,
                                 const std::string& hint = {});

/// "0000:0f:00.0" of "00000000:0F:00.0": lower case, with the four digits of a domain that sysfs
/// writes.
std::string sysfs_bdf(std::string_view address);

/// "0000:0f:00.0", the domain with four to eight digits.
bool is_pci_address(std::string_view text);

/// For captures that know CPUs by NUMA node alone: each allowed CPU is a core, each NUMA node a
/// socket and a last-level cache. Fills cores and package_count from numa_nodes and allowed_cpus,
/// and says so in notes and in cores_are_told.
void count_cpus_as_cores(NodeTopology& topology);

/// Sorts GPUs by PCI address and numbers them, HCAs and interfaces by name.
void put_in_order(NodeTopology& topology);

}  // namespace autolaunch::launcher
