#pragma once
#include "flight/flight_summary.hpp"

#include <chrono>
#include <string>

namespace autolaunch::launcher {

/// What a rank did last in its communicators, by its recorder, which was read `since_end` after its
/// end: "inside all_reduce #2 (1 KiB) since 1.2 s", "behind all_reduce #2 (1 KiB), which was over
/// 3 ms before". Empty: nothing is recorded. Pure.
std::string last_call(const flight::RecordedRank& rank, std::chrono::microseconds since_end);

}  // namespace autolaunch::launcher
