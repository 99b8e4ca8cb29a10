#pragma once
#include "base/unique_fd.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// What the kernel has written to its log since this was made, as far as it may tell why a rank
/// ended. Without the right to read it (kernel.dmesg_restrict), in most containers: nothing.
///
/// Owner: the generation's FailureCollector. Threads: the agent's one. Blocks: no.
class KernelLog {
public:
    KernelLog();

    /// All telling lines until now, oldest first; the newest kMostLines.
    const std::vector<std::string>& read();
    static constexpr std::size_t kMostLines = 64;

private:
    UniqueFd fd_;
    std::vector<std::string> lines_;
};

/// "6,1234,5678,-;a.out[812]: segfault at 0 …\n SUBSYSTEM=…": the message of a record of /dev/kmsg.
/// Pure.
std::string_view kernel_message(std::string_view record);

/// Whether the process numbers in the kernel's log are those that this process sees.
bool knows_kernel_pids();

}  // namespace autolaunch::launcher
