#pragma once
#include "readings/node_reading.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// Texts of the kernel, as numbers. Pure; what is odd in one is left out.

/// /proc/stat; `ticks` a second. Nothing without a line of all CPUs.
std::optional<CpuCounters> parse_proc_stat(std::string_view text, double ticks);
/// /proc/loadavg
std::optional<double> parse_load1(std::string_view text);
/// /proc/meminfo
MemorySample parse_meminfo(std::string_view text);
/// /proc/pressure/X, and cgroups' X.pressure: microseconds of "some" and of "full".
struct Stalls {
    std::optional<std::uint64_t> some = {}, full = {};
};
Stalls parse_pressure(std::string_view text);
/// "key number" lines, as of cpu.stat and memory.events.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key);
/// Reads cpu.stat of cgroup v2 (usage_usec, throttled_usec) or v1 (throttled_time, in ns).
void parse_cpu_stat(std::string_view text, CgroupCounters& into);
/// The process's own folder below the mount point of the controller, by /proc/self/cgroup; v2: "",
/// v1: the controller's name. Nothing: there is no such line.
std::optional<std::string> cgroup_path(std::string_view text, std::string_view controller);
/// /proc/net/dev without the loopback and what has never carried anything.
std::vector<NetworkCounters> parse_net_dev(std::string_view text);
/// /proc/diskstats: whole disks, without loop, ram and zram, and what was never used. `is_whole`
/// tells disks from partitions; a disk that is made of others (dm, md) is left out.
std::vector<DiskCounters> parse_diskstats(std::string_view text,
                                          const std::vector<std::string>& whole_disks);

/// /proc/PID/stat
struct ProcessStat {
    int parent = 0, threads = 0;
    std::uint64_t ticks = 0;  ///< user and system, with those of children that it has waited for
    std::uint64_t resident_pages = 0;
};
std::optional<ProcessStat> parse_process_stat(std::string_view text);

/// Of each GPU's clock event reasons, as NVML has them, the words of docs/samples.md. Pure.
std::vector<std::string> slowed_by(std::uint64_t reasons);

/// "400 Gb/sec (4X NDR)": bytes a second.
std::optional<double> parse_link_rate(std::string_view text);

}  // namespace autolaunch::launcher
