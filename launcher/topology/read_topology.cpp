#include "topology/read_topology.hpp"

#include "base/affinity.hpp"
#include "base/hostname.hpp"
#include "topology/natural_order.hpp"
#include "topology/odd_places.hpp"
#include "topology/printable.hpp"
#include "topology/readers.hpp"
#include "topology/system_files.hpp"

#include <autolaunch/error.hpp>

#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

namespace autolaunch::launcher {
namespace {

// Mems_allowed_list is the cpuset's; empty when the kernel does not say.
std::vector<int> read_allowed_memory_nodes(const std::string& proc_root) {
    const auto fields = read_fields(proc_root + "/self/status");
    const auto found = fields.find("Mems_allowed_list");
    return found == fields.end() ? std::vector<int>{}
                                 : parse_list(found->second).value_or(std::vector<int>{});
}

// A kernel without NUMA shows no nodes.
NumaNode whole_machine(const std::vector<int>& allowed_cpus) {
    NumaNode node;
    struct sysinfo info = {};
    if (::sysinfo(&info) == 0)
        node.memory_bytes = static_cast<std::uint64_t>(info.totalram) * info.mem_unit;
    node.cpus = allowed_cpus;
    return node;
}

}  // namespace

std::vector<int> read_affinity() {
    if (auto cpus = affinity_of(0))
        return std::move(*cpus);
    throw SystemError(errno, "read the CPU affinity mask");
}

NodeTopology read_local_topology(const TopologyOptions& options) {
    NodeTopology topology;
    topology.hostname = hostname();
    if (options.cpu_model)
        topology.cpu_model = read_cpu_model(options);
    topology.allowed_cpus = options.allowed_cpus ? *options.allowed_cpus : read_affinity();

    topology.cpu_quota = read_cpu_quota(options);
    topology.memory_limit_bytes = read_memory_limit(options);

    auto system_nodes = read_system_numa_nodes(options);
    topology.numa_nodes = usable_numa_nodes(system_nodes, topology.allowed_cpus,
                                            read_allowed_memory_nodes(options.proc_root));
    if (topology.numa_nodes.empty())
        topology.numa_nodes = {whole_machine(topology.allowed_cpus)};
    if (system_nodes.empty())
        system_nodes = {{topology.numa_nodes.front(), {0}}};

    read_cores(options, system_nodes, topology);
    if (options.details)
        read_unusable(options, system_nodes, topology);
    std::set<int> packages;
    for (const Core& core : topology.cores)
        packages.insert(core.package);
    topology.package_count = static_cast<int>(packages.size());

    topology.gpus = read_gpus(options, topology.allowed_cpus, system_nodes, topology.notes);
    for (Gpu& gpu : topology.gpus)
        if (gpu.numa_node)
            gpu.node_distances =
                distances_between(system_nodes, *gpu.numa_node, topology.numa_nodes);
    ask_nvidia_driver(options, topology);
    if (options.details && has_kfd(options))
        for (ToldPath& path : read_kfd_links(options))
            topology.told_paths.push_back(std::move(path));
    topology.hcas = read_hcas(options, system_nodes);
    if (!topology.hcas.empty())
        topology.peermem = read_peermem(options.sysfs_root);
    topology.network_interfaces = read_network_interfaces(options);
    for (Hca& nic : read_slingshot(options, system_nodes, topology.network_interfaces))
        topology.hcas.push_back(std::move(nic));
    const auto by_name = [](const auto& a, const auto& b) { return natural_less(a.name, b.name); };
    std::sort(topology.hcas.begin(), topology.hcas.end(), by_name);
    std::sort(topology.network_interfaces.begin(), topology.network_interfaces.end(), by_name);
    if (options.details)
        note_odd_places(topology, [&](int node) {
            return distances_between(system_nodes, node, topology.numa_nodes);
        });
    make_printable(topology);  // models and firmware's words come from devices
    return topology;
}

}  // namespace autolaunch::launcher
