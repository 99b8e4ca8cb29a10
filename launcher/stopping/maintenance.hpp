#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// A reservation for maintenance that will take nodes of the job.
struct Maintenance {
    std::string name;
    std::string node;  ///< one of them
    std::chrono::system_clock::time_point starts_at;
    bool operator==(const Maintenance&) const = default;
};

/// `scontrol show reservation -o`.
std::vector<std::string> maintenance_question();

/// The next one of its answer that has not begun and has one of the job's nodes. Slurm starts no
/// job that would reach into one, but an operator may make one over jobs that run (IGNORE_JOBS).
/// Reads the time zone.
std::optional<Maintenance> next_maintenance(std::string_view answer,
                                            const std::vector<std::string>& nodes,
                                            std::chrono::system_clock::time_point now);

}  // namespace autolaunch::launcher
