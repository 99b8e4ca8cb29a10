#include "topology_view/machine_layout.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace autolaunch::launcher {
namespace {

struct Device {
    const std::vector<std::string>* path;
    std::optional<int> numa_node;
    std::string bdf;
    bool is_gpu;
    int position;
};

std::vector<Device> devices_of(const NodeTopology& topology) {
    std::vector<Device> devices;
    for (std::size_t i = 0; i < topology.gpus.size(); ++i) {
        const Gpu& gpu = topology.gpus[i];
        devices.push_back({&gpu.pci_path, gpu.numa_node, gpu.bdf, true, static_cast<int>(i)});
    }
    for (std::size_t i = 0; i < topology.hcas.size(); ++i) {
        const Hca& hca = topology.hcas[i];
        devices.push_back({&hca.pci_path, hca.numa_node, hca.bdf, false, static_cast<int>(i)});
    }
    std::stable_sort(devices.begin(), devices.end(),
                     [](const Device& a, const Device& b) { return a.bdf < b.bdf; });
    return devices;
}

// Two devices with the same root port hang from a switch below it; functions of one card do, too.
std::string root_port(const Device& device) {
    return device.path->size() > 1 ? (*device.path)[1] : std::string();
}
std::string host_bridge(const Device& device) {
    return device.path->empty() ? std::string() : device.path->front();
}

std::vector<DeviceGroup> group(const std::vector<Device>& devices) {
    std::map<std::string, int> users;
    for (const Device& device : devices)
        ++users[root_port(device)];
    std::vector<DeviceGroup> groups;
    for (const Device& device : devices) {
        const std::string port = root_port(device);
        const bool shares = !port.empty() && users[port] > 1;
        const std::string name = shares ? port : host_bridge(device);
        auto found = std::find_if(groups.begin(), groups.end(),
                                  [&](const DeviceGroup& g) { return g.name == name; });
        if (found == groups.end())
            found = groups.insert(groups.end(), DeviceGroup{name, shares, {}, {}});
        (device.is_gpu ? found->gpus : found->hcas).push_back(device.position);
    }
    return groups;
}

std::vector<CacheBox> caches_of(const NodeTopology& topology, int numa_node) {
    std::vector<CacheBox> caches;
    for (std::size_t i = 0; i < topology.cores.size(); ++i) {
        const Core& core = topology.cores[i];
        if (core.numa_node != numa_node)
            continue;
        auto found = std::find_if(caches.begin(), caches.end(),
                                  [&](const CacheBox& c) { return c.l3 == core.l3; });
        if (found == caches.end()) {
            const auto ordinal = static_cast<std::size_t>(core.l3);
            const std::uint64_t bytes =
                ordinal < topology.l3_bytes.size() ? topology.l3_bytes[ordinal] : 0;
            found = caches.insert(caches.end(), CacheBox{core.l3, bytes, {}});
        }
        found->cores.push_back(static_cast<int>(i));
    }
    return caches;
}

int package_of(const NodeTopology& topology, int numa_node) {
    std::optional<int> lowest;
    for (const Core& core : topology.cores)
        if (core.numa_node == numa_node)
            lowest = std::min(core.package, lowest.value_or(core.package));
    return lowest.value_or(0);
}

bool is_usable(const NodeTopology& topology, int numa_node) {
    return std::any_of(topology.numa_nodes.begin(), topology.numa_nodes.end(),
                       [&](const NumaNode& node) { return node.index == numa_node; });
}

// What no NUMA node of ours shows: else a socket without any would be missing.
void add_the_rest(const NodeTopology& topology, std::map<int, PackageBox>& packages,
                  std::vector<int>& unusable) {
    for (std::size_t i = 0; topology.cores_are_told && i < topology.cores.size(); ++i)
        if (!is_usable(topology, topology.cores[i].numa_node))
            packages[topology.cores[i].package].loose_cores.push_back(static_cast<int>(i));
    for (std::size_t i = 0; i < topology.unusable_cpus.size(); ++i) {
        const auto& package = topology.unusable_cpus[i].package;
        (package ? packages[*package].unusable : unusable).push_back(static_cast<int>(i));
    }
}

}  // namespace

MachineLayout lay_out(const NodeTopology& topology) {
    MachineLayout layout;
    layout.core_count = static_cast<int>(topology.cores.size());
    for (const Core& core : topology.cores)
        layout.thread_count += static_cast<int>(core.cpus.size());

    std::map<int, std::vector<Device>> by_node;
    std::vector<Device> elsewhere;
    for (Device& device : devices_of(topology)) {
        const bool is_here = device.numa_node && is_usable(topology, *device.numa_node);
        (is_here ? by_node[*device.numa_node] : elsewhere).push_back(std::move(device));
    }
    std::map<int, PackageBox> packages;
    for (const NumaNode& node : topology.numa_nodes) {
        const int package = package_of(topology, node.index);
        packages[package].nodes.push_back({node.index, node.memory_bytes, node.cpus,
                                           caches_of(topology, node.index),
                                           group(by_node[node.index])});
    }
    add_the_rest(topology, packages, layout.unusable);
    for (auto& [number, box] : packages) {
        box.package = number;
        layout.packages.push_back(std::move(box));
    }
    layout.elsewhere = group(elsewhere);
    return layout;
}

}  // namespace autolaunch::launcher
