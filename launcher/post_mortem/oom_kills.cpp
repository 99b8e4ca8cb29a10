#include "post_mortem/oom_kills.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

namespace {

std::string read_or_empty(const std::filesystem::path& path) {
    try {
        return read_file(path);
    } catch (const SystemError&) {
        return {};
    }
}

std::optional<std::int64_t> oom_kill_of(std::string_view text) {
    constexpr std::string_view kKey = "oom_kill ";
    for (const auto& line : split(text, '\n')) {
        long long count = 0;
        if (line.starts_with(kKey) && parse_integer(trim(line).substr(kKey.size()), count))
            return count;
    }
    return std::nullopt;
}

// The files that may hold the count, from one line of /proc/PID/cgroup: "0::/path" or
// "4:memory:/path". Inside a container the path is often the host's, and our cgroup the root of
// what we see.
std::vector<std::filesystem::path> candidates(const std::string& line,
                                              const std::filesystem::path& root) {
    const auto fields = split(line, ':');
    if (fields.size() < 3)
        return {};
    const auto controllers = split(fields[1], ',');
    const std::string path = line.substr(fields[0].size() + fields[1].size() + 2);
    const std::string inside = path.substr(std::min(path.size(), path.find_first_not_of('/')));
    if (fields[1].empty())
        return {root / inside / "memory.events", root / "memory.events"};
    if (std::find(controllers.begin(), controllers.end(), "memory") == controllers.end())
        return {};
    return {root / "memory" / inside / "memory.oom_control",
            root / "memory" / "memory.oom_control"};
}

}  // namespace

std::optional<std::int64_t> read_oom_kills(const std::string& process,
                                           const std::filesystem::path& proc_root,
                                           const std::filesystem::path& cgroup_root) {
    for (const auto& line : split(read_or_empty(proc_root / process / "cgroup"), '\n'))
        for (const auto& file : candidates(line, cgroup_root))
            if (const auto count = oom_kill_of(read_or_empty(file)))
                return count;
    return std::nullopt;
}

}  // namespace autolaunch::launcher
