// How much time on CPUs a cgroup allows: fewer CPUs' worth than there are CPUs means that processes are stopped for the
// rest of each period, however few of them run at once.

#include "base/text.hpp"
#include "topology/readers.hpp"
#include "topology/system_files.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace autolaunch::launcher {
namespace {

using Quota = std::optional<double>;

Quota ratio(std::string_view quota, std::string_view period) {
    long long of_period = 0, whole = 0;  // both in microseconds
    if (!parse_integer(quota, of_period) || !parse_integer(period, whole)) return std::nullopt;
    if (of_period <= 0 || whole <= 0) return std::nullopt;  // -1: no limit
    const double cpus = static_cast<double>(of_period) / static_cast<double>(whole);
    return std::max(0.01, std::round(cpus * 100) / 100);  // to show as it is
}

// cpu.max is "200000 100000", or "max 100000".
Quota read_v2(const std::string& folder) {
    const auto text = read_small(folder + "/cpu.max");
    if (!text) return std::nullopt;
    const auto fields = split(*text, ' ');
    return fields.size() == 2 ? ratio(fields[0], fields[1]) : std::nullopt;
}

Quota read_v1(const std::string& folder) {
    const auto quota = read_small(folder + "/cpu.cfs_quota_us");
    const auto period = quota ? read_small(folder + "/cpu.cfs_period_us") : std::nullopt;
    return period ? ratio(*quota, *period) : std::nullopt;
}

// Every level limits those below it. In a container the path is often the host's, and our cgroup the root of what we
// see: levels that are not there say nothing, and the root is always asked.
Quota lowest(const std::string& root, std::string path, const std::function<Quota(const std::string&)>& read) {
    constexpr int kMostLevels = 64;
    Quota least;
    for (int level = 0; level < kMostLevels; ++level) {
        while (path.ends_with('/')) path.pop_back();
        if (const Quota here = read(root + path); here && (!least || *here < *least)) least = here;
        if (path.empty()) break;
        path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
    return least;
}

}  // namespace

// A line is "0::/path" of version 2, or "4:cpu,cpuacct:/path" of version 1.
std::optional<double> read_cpu_quota(const TopologyOptions& options) {
    const std::string root = options.sysfs_root + "/fs/cgroup";
    const auto text = read_small(options.proc_root + "/self/cgroup");
    if (!text) return std::nullopt;
    Quota least;
    for (const std::string& line : split(*text, '\n')) {
        const auto fields = split(line, ':');
        if (fields.size() < 3) continue;
        const std::string path = line.substr(fields[0].size() + fields[1].size() + 2);
        const auto controllers = split(fields[1], ',');
        Quota here;
        if (fields[1].empty())
            here = lowest(root, path, read_v2);
        else if (std::find(controllers.begin(), controllers.end(), "cpu") != controllers.end())
            here = lowest(exists(root + "/cpu") ? root + "/cpu" : root + "/" + fields[1], path, read_v1);
        if (here && (!least || *here < *least)) least = here;
    }
    return least;
}

}  // namespace autolaunch::launcher
