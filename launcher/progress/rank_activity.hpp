#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace autolaunch::launcher {

enum class Doing : std::uint8_t {
    working,      ///< its processes use CPU time, read or write
    still,        ///< they do neither
    stopped,      ///< by SIGSTOP
    blocked,      ///< it is within the kernel and cannot be woken: a disk, a file server, a driver
    traced,       ///< a debugger holds it
    waits,        ///< for others in a collective, by its Python stack
    awaits_data,  ///< it stands still while data comes that it was started without
};

/// What the processes of a rank, it and all its descendants, had used up to a moment.
struct ActivityLook {
    std::chrono::steady_clock::time_point at;
    std::chrono::milliseconds cpu_time{0};
    std::uint64_t moved_bytes = 0;        ///< read and written, also from memory and pipes
    std::chrono::milliseconds waited{0};  ///< its main process's threads, for a CPU that was busy
    std::chrono::milliseconds throttled{0};  ///< its cgroup, which had used up its share
    std::uint64_t major_faults = 0;          ///< pages of files and swap that were not in memory
    std::uint64_t disk_bytes = 0;            ///< read, of what was not in the page cache
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

/// What moves the GPU of a rank, and what may make it slower than those of its node's other ranks;
/// 0: not known.
struct GpuPace {
    int rank = 0;
    std::uint64_t nvlink_bytes = 0;    ///< that came and went, since the driver was loaded
    int link_width = 0;                ///< lanes that its PCIe link uses now
    std::uint64_t slowed_reasons = 0;  ///< NVML's mask of those that cool or feed it
    bool operator==(const GpuPace&) const = default;
};

/// Of `rank`, beside its peers: "has a GPU with 4 PCIe lanes, others have 16"; empty: nothing. Not
/// by the lanes' speed, which falls where a GPU has nothing to do. Pure.
std::string describe_gpu_pace(int rank, const std::vector<GpuPace>& gpus);

}  // namespace autolaunch::launcher
