#pragma once
#include "run_report/run_reader.hpp"

namespace autolaunch::launcher {

/// Fills in record.gpu_time: of the course of the job, of the plan's GPUs and of RUN_DIR/samples,
/// one node after the other, so that memory is that of one. `folder` is the run directory's.
void read_gpu_time(int folder, const RunReading& reading, RunRecord& record);

}  // namespace autolaunch::launcher
