#pragma once
#include "base/deadline.hpp"

#include <chrono>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

inline constexpr std::chrono::seconds kSlurmLookupTime{5};

/// The address that Slurm has for a node (NodeAddr), where it is not the node's name and the
/// resolver does not know the name: `scontrol show node`. Empty when there is no scontrol, it does
/// not know, or the deadline passes. Blocks, so it is for a thread of its own.
std::string slurm_node_address(const std::string& node_name, const Deadline& deadline);

/// Out of scontrol's one-line form. Pure.
std::string read_node_address(std::string_view scontrol_output);

}  // namespace autolaunch::launcher
