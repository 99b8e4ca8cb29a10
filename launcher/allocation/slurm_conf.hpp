#pragma once
#include "allocation/allocation.hpp"

#include <chrono>
#include <optional>
#include <string_view>

namespace autolaunch::launcher {

/// KillWait of a slurm.conf: the time between Slurm's SIGTERM and its SIGKILL. Slurm's default, 30
/// s, where no line has it. Pure.
std::chrono::seconds kill_wait_in(std::string_view slurm_conf);

/// The same of this node's slurm.conf: the file that SLURM_CONF names, or one of those places where
/// Slurm keeps it. Nothing where none can be read.
std::optional<std::chrono::seconds> read_kill_wait(const EnvironmentMap& environment,
                                                   const FileReader& read_text);

}  // namespace autolaunch::launcher
