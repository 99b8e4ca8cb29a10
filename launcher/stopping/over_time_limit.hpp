#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// OverTimeLimit: how long Slurm lets a job run on after its time limit, before it ends it as at the
// limit. A partition's own counts before the cluster's.

inline constexpr std::chrono::minutes kEndlessOverTime{65'535};  ///< UNLIMITED: Slurm's own number

/// `scontrol show partition -o NAME`
std::vector<std::string> partition_question(const std::string& name);
/// `scontrol show config`
std::vector<std::string> config_question();

/// Of that partition's line; nothing: it has none of its own, or no such line is there. Pure.
std::optional<std::chrono::minutes> partition_over_time(std::string_view answer,
                                                        const std::string& name);
/// Nothing: the answer does not say it. Pure.
std::optional<std::chrono::minutes> cluster_over_time(std::string_view config);

}  // namespace autolaunch::launcher
