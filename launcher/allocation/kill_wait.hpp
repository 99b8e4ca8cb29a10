#pragma once
#include "allocation/allocation.hpp"
#include "allocation/slurm_conf.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// KillWait of a slurm.conf: the time between Slurm's SIGTERM and its SIGKILL. Nothing where no
/// line has it; of several lines the last counts. Pure.
std::optional<std::chrono::seconds> kill_wait_in(const ConfFile& slurm_conf);
inline constexpr std::chrono::seconds kDefaultKillWait{30};  ///< Slurm's own
/// terminationGracePeriodSeconds of a pod whose manifest has none.
inline constexpr std::chrono::seconds kDefaultPodGrace{30};

struct KillWaitReading {
    std::optional<std::chrono::seconds> kill_wait;  ///< nothing: no slurm.conf could be read
    std::vector<std::string> notes;                 ///< files that are named and cannot be read
};

/// The same of this node's slurm.conf and what that includes: the file that SLURM_CONF names, or
/// one of those places where Slurm keeps it.
KillWaitReading read_kill_wait(const EnvironmentMap& environment, const FileReader& read_text);

/// Another number of the same files: WaitTime, KillOnBadExit. Nothing: no line has it, or none can
/// be read (which read_kill_wait says).
std::optional<long long> slurm_conf_number(const char* name, const EnvironmentMap& environment,
                                           const FileReader& read_text);

}  // namespace autolaunch::launcher
