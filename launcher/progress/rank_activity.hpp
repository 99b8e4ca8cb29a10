#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace autolaunch::launcher {

enum class Doing : std::uint8_t {
    working,  ///< its processes use CPU time, read or write
    still,    ///< they do neither
    stopped,  ///< by SIGSTOP
    blocked,  ///< it is within the kernel and cannot be woken: a disk, a file server, a driver
    traced,   ///< a debugger holds it
    waits,    ///< for others in a collective, by its Python stack
};

/// What the processes of a rank, it and all its descendants, had used up to a moment.
struct ActivityLook {
    std::chrono::steady_clock::time_point at;
    std::chrono::milliseconds cpu_time{0};
    std::uint64_t moved_bytes = 0;        ///< read and written, also from memory and pipes
    std::chrono::milliseconds waited{0};  ///< its main process's threads, for a CPU that was busy
    std::chrono::milliseconds throttled{0};  ///< its cgroup, which had used up its share
};

/// What a rank did between two looks.
struct RankActivity {
    int rank = 0;
    int pid = 0;
    Doing doing = Doing::working;
    int cpu_percent = 0;  ///< of one CPU; may be over 100
    std::string what;     ///< goes on after "rank 3 ": "reads /data/7.bin", "is stopped (SIGSTOP)"
    bool operator==(const RankActivity&) const = default;
};

/// `state` is the letter of /proc/PID/stat. Threads that only wake to look at a clock, as watchdogs
/// do, are no work. Pure.
RankActivity compare_looks(const ActivityLook& first, const ActivityLook& second, char state);

}  // namespace autolaunch::launcher
