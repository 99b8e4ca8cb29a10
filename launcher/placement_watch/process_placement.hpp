#pragma once
#include "base/unique_fd.hpp"

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// One thread and the CPUs that the kernel lets it run on, sorted.
struct ThreadPlacement {
    pid_t thread = 0;
    std::string name;
    std::vector<int> cpus;
};

/// All threads of a process, its leader first; empty when it is gone. About 10 µs a thread.
std::vector<ThreadPlacement> threads_of(pid_t process, const std::string& proc_root = "/proc");

/// Where a process's own memory lies: bytes by the kernel's number of the NUMA node.
using MemoryPlacement = std::map<int, std::uint64_t>;

/// Adds one line of numa_maps: private pages that the process has written to. Files, code and what
/// it shares with others lie where somebody else touched them first, and are left out. Pure.
void add_numa_maps_line(std::string_view line, MemoryPlacement& bytes);

/// Reads /proc/PID/numa_maps a piece at a time: for each, the kernel walks the pages of some
/// mappings with the process's memory map locked for reading, so between pieces the process and the
/// caller's event loop have their turn.
///
/// Owner: whoever watches the process. Threads: one. Blocks: in read_some(), for one piece.
class NumaMapsReader {
public:
    explicit NumaMapsReader(pid_t process, const std::string& proc_root = "/proc");

    /// True when there is no more to read, which is at once for a process that is gone or a kernel
    /// without NUMA.
    bool read_some();
    const MemoryPlacement& bytes() const { return bytes_; }

private:
    UniqueFd file_;
    std::string rest_;  ///< a line whose end has not come yet
    MemoryPlacement bytes_;
};

}  // namespace autolaunch::launcher
