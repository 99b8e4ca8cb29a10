#pragma once
#include "restart_policy/restart_history.hpp"

#include <chrono>
#include <map>
#include <set>
#include <string>

namespace autolaunch::launcher {

/// A node is left out for the rest of the job, and over its requeues, once so many generations
/// ended by what is a machine's fault there (gpu, network, storage, node_lost), or one that
/// restart_elsewhere answered; and once a check has found it so. What was before somebody took it
/// back does not count.
inline constexpr int kFailuresOfUnfitNode = 2;

/// Those nodes, with what is said of each: "2 generations ended there: gpu, network". Pure.
std::map<std::string, std::string> unfit_nodes(const RestartHistory& history);

/// Those, and what the scheduler must not give the job again besides: nodes that were lost. Pure.
std::map<std::string, std::string> nodes_to_exclude(const RestartHistory& history);

/// Those that were lost since then, whether or not a generation ended by it: Slurm holds a requeued
/// job for good that still has one of them.
std::set<std::string> nodes_lost_since(const RestartHistory& history,
                                       std::chrono::system_clock::time_point since);

}  // namespace autolaunch::launcher
