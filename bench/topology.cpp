// What knowing the machine costs a launch: the sysfs reader against hwloc as cheap as it can be configured, each in
// fresh processes, since a launch reads the machine once. Prints medians in milliseconds.
// docs/adr/0003-topology-cost.md.

#include "topology/read_topology.hpp"

#include <fmt/format.h>
#include <hwloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kSamples = 51;

void load_hwloc(bool only_what_we_need) {
    hwloc_topology_t topology = nullptr;
    hwloc_topology_init(&topology);
    for (const char* component : {"cuda", "nvml", "opencl", "gl", "levelzero", "rsmi", "x86"})
        if (only_what_we_need)
            hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
    if (only_what_we_need) {
        hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
        for (const hwloc_obj_type_t type : {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_CORE})
            hwloc_topology_set_type_filter(topology, type, HWLOC_TYPE_FILTER_KEEP_ALL);
    }
    hwloc_topology_load(topology);
    hwloc_topology_destroy(topology);
}

// One call in a child of its own, in milliseconds; negative if the child failed.
template <class Call>
double measure_in_child(Call call) {
    int ends[2];
    if (::pipe(ends) != 0) return -1;
    const pid_t child = ::fork();
    if (child == 0) {
        const auto begin = std::chrono::steady_clock::now();
        call();
        const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
        ::_exit(::write(ends[1], &ms, sizeof ms) == sizeof ms ? 0 : 1);
    }
    double ms = -1;
    ::close(ends[1]);
    if (::read(ends[0], &ms, sizeof ms) != sizeof ms) ms = -1;
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    return ms;
}

template <class Call>
void report(const char* name, Call call) {
    std::vector<double> samples;
    for (int i = 0; i < kSamples; ++i) samples.push_back(measure_in_child(call));
    std::sort(samples.begin(), samples.end());
    if (samples.front() < 0) {
        fmt::print(stderr, "{}: a child failed\n", name);
        std::exit(1);
    }
    fmt::print("{:<44} median {:.3f} ms, slowest of {} {:.3f} ms\n", name, samples[kSamples / 2], kSamples,
               samples.back());
}

}  // namespace

int main() {
    const auto topology = autolaunch::launcher::read_local_topology();
    fmt::print("{} CPUs, {} NUMA nodes, {} GPUs\n", topology.allowed_cpus.size(), topology.numa_nodes.size(),
               topology.gpus.size());
    report("sysfs reader", [] { autolaunch::launcher::read_local_topology(); });
    report("hwloc, components and types cut to the least", [] { load_hwloc(true); });
    report("hwloc, as it comes", [] { load_hwloc(false); });
}
