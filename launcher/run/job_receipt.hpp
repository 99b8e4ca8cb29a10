#pragma once
#include "plan/launch_plan.hpp"

namespace autolaunch::launcher {

class Console;
class RunDirectory;

/// Says at a job's end where the time of its GPUs went: RUN_DIR/gpu-time.json, three lines on the
/// console where it had GPUs, and a comment on Slurm's job. On the head, once all that is told of
/// the job is in its folder. Blocks: on the file system, for as long as events and samples take to
/// read, of which there are no more than it says; and for some seconds on Slurm.
void tell_receipt(const LaunchPlan& plan, const RunDirectory& run_dir, Console& console);

}  // namespace autolaunch::launcher
