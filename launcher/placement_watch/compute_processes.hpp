#pragma once
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// A process that computes on a GPU, or on a MIG device.
struct ComputeProcess {
    std::string bdf, uuid;  ///< of the GPU; the UUID of the MIG device, where it is one
    bool on_part = false;   ///< on a MIG device
    pid_t pid = 0;          ///< as the driver tells it: in the host's PID namespace
    pid_t rank_pid = 0;     ///< the rank that it is, or that started it; 0: none
};

/// What the driver tells of a node at one moment.
struct ComputeProcesses {
    std::vector<ComputeProcess> processes;
    bool host_namespace = true;  ///< the driver's PIDs are ours
    std::string trouble;         ///< why the driver told nothing; else empty
};

/// Asks the driver, here and now; it may take seconds, crash or hang. `library` as in Nvml::load.
ComputeProcesses read_compute_processes(const std::vector<pid_t>& ranks,
                                        const std::string& library = {},
                                        const std::string& proc_root = "/proc");

/// The one of `ranks` that is this process or an ancestor of it; 0: none.
pid_t find_rank_above(pid_t process, const std::vector<pid_t>& ranks,
                      const std::string& proc_root = "/proc");

/// For the way through a pipe: lines, the last one `end`.
std::string encode_compute_processes(const ComputeProcesses& seen);
/// With `trouble` for what is not whole.
ComputeProcesses decode_compute_processes(std::string_view text);

}  // namespace autolaunch::launcher
