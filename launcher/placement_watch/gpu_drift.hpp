#pragma once
#include "placement_watch/compute_processes.hpp"

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The GPU that a rank was to compute on.
struct PlannedGpu {
    int ordinal = 0;        ///< the number by which the rank knows it
    std::string bdf, uuid;  ///< as in Gpu; either may be empty
    bool is_part = false;   ///< a MIG device: its UUID alone tells it from others of its GPU
};

/// Where a node's ranks compute, as far as the driver tells.
struct GpuFindings {
    struct Drift {
        std::size_t index = 0;  ///< of the rank, in the list that was given
        std::string what;       ///< "computes on GPU 5 (0000:9b:00.0), planned was GPU 3"
    };
    std::vector<Drift> drifts;
    int as_planned = 0;       ///< ranks seen on their GPU and on no other
    std::string cannot_tell;  ///< why nothing of this is known; else empty
};

/// `pids` are the ranks' processes and `planned` their GPUs, in one order. A rank that is on no GPU
/// yet is no drift; one that is on its own and on another, too, is. The driver tells PIDs of the
/// host's PID namespace: in one of our own they are other processes' or nobody's, and one may be a
/// rank's by chance. There the list counts only where it puts more ranks on their GPUs than
/// elsewhere, which chance does not. Pure.
GpuFindings find_gpu_drift(const ComputeProcesses& seen, const std::vector<pid_t>& pids,
                           const std::vector<PlannedGpu>& planned);

}  // namespace autolaunch::launcher
