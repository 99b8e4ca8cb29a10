#pragma once
#include "remains/exit_certificate.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace autolaunch::launcher {

/// What a job had on this node, counted while it ran.
struct JobTraces {
    std::chrono::system_clock::time_point began = std::chrono::system_clock::now();
    int processes = 0;  ///< that were started; what these started is not counted, and ends alike
    int memory_files = 0;
    int first_generation = 0, last_generation = -1;
    std::vector<std::uint16_t> ports;  ///< on which the job listened; of the newest generations
    std::filesystem::path scratch;     ///< the folder of sockets
};

/// Looks for all of it, in the agent, once it has ended and removed what it knew: fills `gone`,
/// `left`, `not_checked` and `unclaimed`. Where all is well it costs some ten system calls. Blocks
/// for a listing of /dev/shm.
void look_for_remains(const JobTraces& traces, ExitCertificate& certificate);

/// "4711 (python3), in uninterruptible sleep".
std::string describe_process(int pid);

}  // namespace autolaunch::launcher
