// What a cgroup allows. Time on CPUs: fewer CPUs' worth than there are CPUs means that processes
// are stopped for the rest of each period, however few of them run at once. Memory: what goes
// beyond is killed.

#include "base/text.hpp"
#include "topology/readers.hpp"
#include "topology/system_files.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace autolaunch::launcher {
namespace {

using Limit = std::optional<double>;  // CPUs, or bytes
using Reader = std::function<Limit(const std::string& folder)>;

struct Controller {
    const char* name;  // of version 1
    Reader read_v2, read_v1;
};

Limit ratio(std::string_view quota, std::string_view period) {
    long long of_period = 0, whole = 0;  // both in microseconds
    if (!parse_integer(quota, of_period) || !parse_integer(period, whole))
        return std::nullopt;
    if (of_period <= 0 || whole <= 0)
        return std::nullopt;  // -1: no limit
    const double cpus = static_cast<double>(of_period) / static_cast<double>(whole);
    return std::max(0.01, std::round(cpus * 100) / 100);  // to show as it is
}

// cpu.max is "200000 100000", or "max 100000".
Limit read_quota_v2(const std::string& folder) {
    const auto text = read_small(folder + "/cpu.max");
    if (!text)
        return std::nullopt;
    const auto fields = split(*text, ' ');
    return fields.size() == 2 ? ratio(fields[0], fields[1]) : std::nullopt;
}

Limit read_quota_v1(const std::string& folder) {
    const auto quota = read_small(folder + "/cpu.cfs_quota_us");
    const auto period = quota ? read_small(folder + "/cpu.cfs_period_us") : std::nullopt;
    return period ? ratio(*quota, *period) : std::nullopt;
}

// "max" in version 2, and almost 2^63 in version 1, are no limit.
Limit read_bytes(const std::string& file) {
    const auto text = read_small(file);
    long long bytes = 0;
    if (!text || !parse_integer(*text, bytes) || bytes <= 0 || bytes >= (1LL << 60))
        return std::nullopt;
    return static_cast<double>(bytes);
}

// Every level limits those below it. In a container the path is often the host's, and our cgroup
// the root of what we see: levels that are not there say nothing, and the root is always asked.
Limit lowest(const std::string& root, std::string path, const Reader& read) {
    constexpr int kMostLevels = 64;
    Limit least;
    for (int level = 0; level < kMostLevels; ++level) {
        while (path.ends_with('/'))
            path.pop_back();
        if (const Limit here = read(root + path); here && (!least || *here < *least))
            least = here;
        if (path.empty())
            break;
        path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
    return least;
}

// A line is "0::/path" of version 2, or "4:cpu,cpuacct:/path" of version 1.
Limit read_limit(const TopologyOptions& options, const Controller& controller) {
    const std::string root = options.sysfs_root + "/fs/cgroup";
    const std::string own = root + "/" + controller.name;
    const auto text = read_small(options.proc_root + "/self/cgroup");
    if (!text)
        return std::nullopt;
    Limit least;
    for (const std::string& line : split(*text, '\n')) {
        const auto fields = split(line, ':');
        if (fields.size() < 3)
            continue;
        const std::string path = line.substr(fields[0].size() + fields[1].size() + 2);
        const auto controllers = split(fields[1], ',');
        Limit here;
        if (fields[1].empty())
            here = lowest(root, path, controller.read_v2);
        else if (std::find(controllers.begin(), controllers.end(), controller.name) !=
                 controllers.end())
            here = lowest(exists(own) ? own : root + "/" + fields[1], path, controller.read_v1);
        if (here && (!least || *here < *least))
            least = here;
    }
    return least;
}

}  // namespace

std::optional<double> read_cpu_quota(const TopologyOptions& options) {
    return read_limit(options, {"cpu", read_quota_v2, read_quota_v1});
}

std::optional<std::uint64_t> read_memory_limit(const TopologyOptions& options) {
    const auto v2 = [](const std::string& folder) { return read_bytes(folder + "/memory.max"); };
    const auto v1 = [](const std::string& folder) {
        return read_bytes(folder + "/memory.limit_in_bytes");
    };
    const Limit limit = read_limit(options, {"memory", v2, v1});
    return limit ? std::optional(static_cast<std::uint64_t>(*limit)) : std::nullopt;
}

}  // namespace autolaunch::launcher
