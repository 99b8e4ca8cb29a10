#pragma once
#include "idle/gpu_time.hpp"
#include "idle/gpu_trace.hpp"
#include "idle/job_course.hpp"

#include <cstddef>
#include <vector>

namespace autolaunch::launcher {

/// What each GPU of a node did with the time for which the job held it. Its uses sum to that time:
/// all of the job's spans but those in the scheduler's queue. docs/gpu-time.md has the rules.
/// `parts`: into how many equal parts of the job's time GpuTime::course is cut; 0: it is not. Pure.
std::vector<GpuTime> attribute(const JobCourse& course, const NodeTrace& node,
                               std::size_t parts = 0);

/// Rank by rank: whoever waits least in collectives is waited for by the others, by what they wait
/// more. Differences of less are those of healthy ranks.
inline constexpr double kLeastWait = 0.05;

}  // namespace autolaunch::launcher
