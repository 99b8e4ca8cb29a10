#include "topology/capture_parts.hpp"

#include "topology/natural_order.hpp"
#include "topology/printable.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace autolaunch::launcher {

void refuse_capture(const std::string& file, int line, const std::string& what,
                    const std::string& hint) {
    const std::string where = line > 0 ? fmt::format("{}:{}", file, line) : file;
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", where, printable(what)), hint);
}

std::string sysfs_bdf(std::string_view address) {
    std::string bdf(address);
    std::transform(bdf.begin(), bdf.end(), bdf.begin(), [](unsigned char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    const std::size_t colon = bdf.find(':');
    if (colon == 8 && bdf.starts_with("0000"))
        bdf.erase(0, 4);
    return bdf;
}

bool is_pci_address(std::string_view text) {
    const std::size_t colon = text.find(':');
    if (colon < 4 || colon > 8 || text.size() != colon + 8 || text[colon + 3] != ':' ||
        text[colon + 6] != '.')
        return false;
    return std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == ':' || c == '.';
    });
}

void count_cpus_as_cores(NodeTopology& topology) {
    std::map<int, int> node_of_cpu;
    for (const NumaNode& node : topology.numa_nodes)
        for (const int cpu : node.cpus)
            node_of_cpu.emplace(cpu, node.index);
    std::map<int, int> ordinal_of_node;
    for (const NumaNode& node : topology.numa_nodes)
        ordinal_of_node.emplace(node.index, static_cast<int>(ordinal_of_node.size()));
    for (const int cpu : topology.allowed_cpus) {
        Core core;
        core.cpus = {cpu};
        if (const auto node = node_of_cpu.find(cpu); node != node_of_cpu.end())
            core.numa_node = node->second;
        if (const auto ordinal = ordinal_of_node.find(core.numa_node);
            ordinal != ordinal_of_node.end())
            core.package = core.l3 = ordinal->second;
        topology.cores.push_back(std::move(core));
    }
    topology.package_count = static_cast<int>(std::max<std::size_t>(1, topology.numa_nodes.size()));
    topology.cores_are_told = false;
    topology.notes.push_back(
        "cores, caches and sockets are not told: no rank gets cores of its own or "
        "OMP_NUM_THREADS from a guess");
}

namespace {

// Amazon's NICs look like Ethernet ones in files; NCCL reaches them through its OFI plugin alone.
void mark_efa(Hca& hca) {
    if (!hca.pci_id.starts_with("1d0f:efa") && !hca.name.starts_with("efa_"))
        return;
    for (Hca::Port& port : hca.ports)
        port.link_layer = "EFA";
}

}  // namespace

void put_in_order(NodeTopology& topology) {
    std::for_each(topology.hcas.begin(), topology.hcas.end(), mark_efa);
    std::stable_sort(topology.gpus.begin(), topology.gpus.end(),
                     [](const Gpu& a, const Gpu& b) { return a.bdf < b.bdf; });
    for (std::size_t i = 0; i < topology.gpus.size(); ++i)
        topology.gpus[i].index = static_cast<int>(i);
    const auto by_name = [](const auto& a, const auto& b) { return natural_less(a.name, b.name); };
    std::stable_sort(topology.hcas.begin(), topology.hcas.end(), by_name);
    std::stable_sort(topology.network_interfaces.begin(), topology.network_interfaces.end(),
                     by_name);
}

}  // namespace autolaunch::launcher
