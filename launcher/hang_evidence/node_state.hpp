#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace autolaunch::launcher {

/// For how much of the last 10, 60 and 300 s something on this node waited for CPU, memory and disk
/// (/proc/pressure), a line each; empty where the kernel does not count it. `proc` is for tests.
std::string describe_pressure(const std::filesystem::path& proc = "/proc");

/// How often the CPU quota of the process's cgroup, and of those above it, was used up: a line each
/// that was throttled. Empty: none, or version 1.
std::string describe_throttling(pid_t pid, const std::filesystem::path& proc = "/proc",
                                const std::filesystem::path& sys = "/sys");

/// For how long so far a CPU quota of the process's cgroup, or of one above it, had been used up,
/// in both versions of cgroups: the longest of them. 0: never, or not told.
std::chrono::microseconds throttled_time(pid_t pid, const std::filesystem::path& proc = "/proc",
                                         const std::filesystem::path& sys = "/sys");

/// Counters of the HCAs' ports, by "mlx5_0 port 1 port_xmit_wait": traffic, and all that counts
/// what went wrong. `sys` is for tests.
using HcaCounters = std::map<std::string, std::uint64_t>;
HcaCounters read_hca_counters(const std::filesystem::path& sys = "/sys");

/// All that these ports have sent and received. Pure.
std::uint64_t hca_bytes(const HcaCounters& counters);

/// What was sent and received between two looks, and the counters of faults that are not 0. Pure.
std::string describe_hcas(const HcaCounters& before, const HcaCounters& after, double seconds);

}  // namespace autolaunch::launcher
