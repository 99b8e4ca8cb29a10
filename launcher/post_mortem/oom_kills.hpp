#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// How many processes the kernel has killed in the cgroup of `process` (a pid, or "self") for want
/// of memory, so far: `oom_kill` of memory.events (cgroup v2) or memory.oom_control (v1); nothing
/// when neither can be read. The roots are for tests.
std::optional<std::int64_t> read_oom_kills(
    const std::string& process = "self", const std::filesystem::path& proc_root = "/proc",
    const std::filesystem::path& cgroup_root = "/sys/fs/cgroup");

}  // namespace autolaunch::launcher
