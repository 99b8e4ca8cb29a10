#include "topology_view/topology_text.hpp"

#include "base/text.hpp"
#include "topology/cpu_sets.hpp"
#include "topology_view/device_table.hpp"
#include "topology_view/machine_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace autolaunch::launcher {
namespace {

std::string plural(std::size_t count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// What is told stays told: a CPU is no core, nor a NUMA node a socket.
std::string count_cores(const NodeTopology& topology, std::size_t cores) {
    return plural(cores, topology.cores_are_told ? "core" : "CPU");
}

std::string title(const NodeTopology& topology, const MachineLayout& layout) {
    std::string text = topology.hostname.empty() ? "?" : topology.hostname;
    text += "   ";
    if (topology.cores_are_told)
        text += plural(layout.packages.size(), "package") + " · ";
    text += topology.numa_nodes.empty() ? "NUMA nodes unknown"
                                        : plural(topology.numa_nodes.size(), "NUMA node");
    text += " · " + count_cores(topology, static_cast<std::size_t>(layout.core_count));
    if (layout.thread_count != layout.core_count)
        text += fmt::format(", {} threads", layout.thread_count);
    if (topology.cpu_quota)
        text += fmt::format(" with {:g} CPUs' worth of time", *topology.cpu_quota);
    text += topology.gpus.empty() ? " · no GPUs" : " · " + plural(topology.gpus.size(), "GPU");
    text += topology.hcas.empty() ? " · no HCAs" : " · " + plural(topology.hcas.size(), "HCA");
    return text + "   (" + topology.source + ")\n";
}

// "12 x 16 MiB", caches of equal size together.
std::string describe_caches(const std::vector<CacheBox>& caches) {
    std::map<std::uint64_t, int> counts;
    for (const CacheBox& cache : caches)
        ++counts[cache.bytes];
    std::vector<std::string> parts;
    for (const auto& [bytes, count] : counts) {
        const std::string size = describe_size(bytes);
        parts.push_back(count == 1 ? size : fmt::format("{} x {}", count, size));
    }
    return join(parts, ", ");
}

struct Row {
    std::string name, address, what;
};

std::vector<Row> rows_of(const NodeTopology& topology, const DeviceGroup& group) {
    std::vector<Row> rows;
    for (const int position : group.gpus) {
        const Gpu& gpu = topology.gpus[static_cast<std::size_t>(position)];
        rows.push_back({gpu_name(gpu), short_bdf(gpu.bdf), describe_gpu(gpu)});
    }
    for (const int position : group.hcas) {
        const Hca& hca = topology.hcas[static_cast<std::size_t>(position)];
        rows.push_back({hca.name, short_bdf(hca.bdf), describe_hca(hca)});
    }
    return rows;
}

std::string draw_groups(const NodeTopology& topology, const std::vector<DeviceGroup>& groups,
                        const std::string& indent) {
    std::string text;
    for (std::size_t g = 0; g < groups.size(); ++g) {
        const bool last_group = g + 1 == groups.size();
        const DeviceGroup& group = groups[g];
        text += fmt::format("{}{} {} {}\n", indent, last_group ? "└" : "├",
                            group.is_switch ? "switch below" : "host bridge",
                            group.name.empty() ? "unknown" : group.name);
        const auto rows = rows_of(topology, group);
        for (std::size_t i = 0; i < rows.size(); ++i)
            text += fmt::format("{}{}  {} {:<8} {:<7}  {}\n", indent, last_group ? " " : "│",
                                i + 1 == rows.size() ? "└" : "├", rows[i].name, rows[i].address,
                                rows[i].what);
    }
    return text;
}

std::string draw_node(const NodeTopology& topology, const NumaBox& node) {
    std::size_t cores = 0;
    for (const CacheBox& cache : node.caches)
        cores += cache.cores.size();
    std::string text = fmt::format("  NUMA node {}   {}   {}: CPU {}", node.index,
                                   describe_size(node.memory_bytes), count_cores(topology, cores),
                                   format_list(node.cpus));
    if (!node.caches.empty() && topology.cores_are_told)
        text += "   L3 " + describe_caches(node.caches);
    return text + '\n' + draw_groups(topology, node.groups, "    ");
}

std::string draw_loose_cores(const NodeTopology& topology, const std::vector<int>& positions) {
    if (positions.empty())
        return {};
    std::vector<Core> cores;
    for (const int position : positions)
        cores.push_back(topology.cores[static_cast<std::size_t>(position)]);
    return fmt::format("  NUMA node unknown   {}: CPU {}\n", count_cores(topology, cores.size()),
                       format_list(cpus_of(cores)));
}

std::string draw_unusable(const NodeTopology& topology, const std::vector<int>& positions) {
    std::string text;
    for (const int position : positions) {
        const UnusableCpus& group = topology.unusable_cpus[static_cast<std::size_t>(position)];
        const std::string node =
            group.numa_node ? fmt::format("NUMA node {}   ", *group.numa_node) : "";
        const std::string cores =
            group.cores > 0 ? plural(static_cast<std::size_t>(group.cores), "core") + ": " : "";
        text += fmt::format("  {}{}CPU {} {}\n", node, cores, format_list(group.cpus),
                            group.why == UnusableCpus::Why::offline
                                ? "offline"
                                : "may not be used here (cpuset or affinity)");
    }
    return text;
}

std::string draw_other_nodes(const NodeTopology& topology) {
    std::string text;
    for (const OtherNumaNode& node : topology.other_numa_nodes)
        text += fmt::format(
            "  NUMA node {}   {}   {}{}\n", node.index, describe_size(node.memory_bytes),
            node.cpus.empty() ? "" : "CPU " + format_list(node.cpus) + "   ", node.why);
    return text.empty() ? text : "NUMA nodes that no rank is placed on\n" + text;
}

std::string draw_matrix(const NodeTopology& topology) {
    const PathMatrix matrix = path_matrix(topology);
    if (matrix.cells.empty() || matrix.columns.size() < 2)
        return {};
    std::size_t width = 4;
    for (const std::string& column : matrix.columns)
        width = std::max(width, column.size());
    std::string text = fmt::format("\n{:<{}}", "", width);
    for (const std::string& column : matrix.columns)
        text += fmt::format("  {:>{}}", column, width);
    text += '\n';
    for (std::size_t row = 0; row < matrix.cells.size(); ++row) {
        text += fmt::format("{:<{}}", matrix.columns[row], width);
        for (const std::string& cell : matrix.cells[row])
            text += fmt::format("  {:>{}}", cell, width);
        text += '\n';
    }
    return text +
           "NV# links of NVLink or xGMI · PIX one PCIe switch · PXB several · PHB a host bridge · "
           "NODE host bridges of "
           "one "
           "NUMA node · SYS between NUMA nodes · ? unknown\n";
}

}  // namespace

std::string topology_text(const NodeTopology& topology) {
    const MachineLayout layout = lay_out(topology);
    std::string text = title(topology, layout);
    const std::string model(topology.cpu_model.empty() ? "CPU model unknown"
                                                       : trim(topology.cpu_model));
    if (!topology.cores_are_told)
        text += "packages unknown   " + model + '\n';
    for (const PackageBox& package : layout.packages) {
        if (topology.cores_are_told)
            text += fmt::format("package {}   {}\n", package.package, model);
        for (const NumaBox& node : package.nodes)
            text += draw_node(topology, node);
        text += draw_loose_cores(topology, package.loose_cores);
        text += draw_unusable(topology, package.unusable);
    }
    if (!layout.unusable.empty())
        text += "of no package that is told\n" + draw_unusable(topology, layout.unusable);
    text += draw_other_nodes(topology);
    if (topology.numa_nodes.empty() && !topology.cores_are_told)
        text += "  NUMA node unknown   CPU " + format_list(topology.allowed_cpus) + '\n';
    else if (!layout.elsewhere.empty())
        text += "near no NUMA node that may be used here\n";
    text += draw_groups(topology, layout.elsewhere, "    ");
    text += draw_matrix(topology);
    for (const std::string& note : topology.notes)
        text += "note: " + note + '\n';
    return text;
}

}  // namespace autolaunch::launcher
