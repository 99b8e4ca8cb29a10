#pragma once
#include "plan/launch_plan.hpp"
#include "rendezvous/join.hpp"
#include "report/event.hpp"
#include "supervise/job_end_time.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What job this is, and on which nodes. Pure.
JobStarted announce_job(const LaunchPlan& plan, const Joined& joined);

/// A node that takes no part any more after `ran`, and its ranks. Pure.
NodeLost announce_lost(const Roster& roster, int node, const std::string& why,
                       std::chrono::milliseconds ran);
inline constexpr char kParentGoneReason[] =
    "the process that started autolaunch there (under Slurm, slurmstepd) was killed or has ended: "
    "nobody waits for that node any more";

/// A standstill for which the generation is ended; what follows is filled in at its end. Pure.
JobHung announce_hang(const StandstillNoticed& found, const Roster& roster, const JobSpec& spec);

/// The allocation ends at another time than was told before. Reads the clock.
Happening announce_change(const std::optional<std::chrono::system_clock::time_point>& ends_at,
                          std::chrono::minutes over_time);

/// What is to be told of the allocation's end. Reads the clock.
std::vector<Happening> announce_times(const LaunchPlan& plan, const JobTimes& times);

}  // namespace autolaunch::launcher
