#pragma once
#include <chrono>
#include <optional>
#include <string_view>

namespace autolaunch::launcher {

/// Slurm's forms of a length of time: "90" and "90:00" are minutes, "1:30:00" hours, "1-12",
/// "1-12:30" and "7-00:00:00" days and hours. Nothing for UNLIMITED, INFINITE, NOT_SET, INVALID,
/// N/A and for whatever is no time. Pure.
std::optional<std::chrono::seconds> parse_slurm_time(std::string_view text);

}  // namespace autolaunch::launcher
