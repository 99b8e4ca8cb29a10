#include "topology/cpu_sets.hpp"
#include "topology/readers.hpp"
#include "topology/system_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace autolaunch::launcher {
namespace {

std::string device_folder(const std::string& sysfs_root, const std::string& bdf) {
    return fmt::format("{}/bus/pci/devices/{}", sysfs_root, bdf);
}

std::vector<std::string> components(const std::string& path) {
    std::vector<std::string> names;
    for (const auto& part : std::filesystem::path(path))
        names.push_back(part.string());
    return names;
}

// A parent bridge's node, from the device upwards: …/pci0000:16/0000:16:01.0/0000:17:00.0.
std::optional<int> numa_node_of_bridges(const std::string& device) {
    std::error_code error;
    std::filesystem::path path = std::filesystem::canonical(device, error);
    if (error)
        return std::nullopt;
    for (path = path.parent_path(); path.has_relative_path(); path = path.parent_path()) {
        if (const auto node = read_number(path / "numa_node"); node && *node >= 0)
            return static_cast<int>(*node);
        if (path.filename().string().starts_with("pci"))
            break;
    }
    return std::nullopt;
}

}  // namespace

bool is_bdf(std::string_view name) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string_view::npos || dot + 2 != name.size() || dot < 10)
        return false;
    if (name[dot - 3] != ':' || name[dot - 6] != ':')
        return false;
    return std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == ':' || c == '.';
    });
}

std::string bdf_in_path(const std::string& path) {
    const auto names = components(path);
    const auto found = std::find_if(names.rbegin(), names.rend(),
                                    [](const std::string& name) { return is_bdf(name); });
    return found == names.rend() ? std::string() : *found;
}

std::vector<std::string> read_pci_path(const std::string& sysfs_root, const std::string& bdf) {
    if (bdf.empty())
        return {};
    auto names = components(read_link(device_folder(sysfs_root, bdf)));
    const auto host_bridge = std::find_if(names.begin(), names.end(), [](const std::string& name) {
        return name.starts_with("pci") && name.find(':') != std::string::npos;
    });
    if (host_bridge == names.end() || names.back() != bdf)
        return {};
    return {host_bridge, names.end() - 1};
}

std::string read_pci_id(const std::string& sysfs_root, const std::string& bdf) {
    if (bdf.empty())
        return {};
    const auto word = [&](const char* file) {
        const std::string text =
            read_small(device_folder(sysfs_root, bdf) + "/" + file).value_or("");
        return text.starts_with("0x") ? text.substr(2) : std::string();
    };
    const std::string vendor = word("vendor"), device = word("device");
    return vendor.empty() || device.empty() ? std::string() : vendor + ":" + device;
}

Locality read_pci_locality(const std::string& sysfs_root, const std::string& bdf,
                           const std::vector<SystemNumaNode>& nodes) {
    const std::string device = device_folder(sysfs_root, bdf);
    Locality locality;
    const auto take = [&](int index, const char* source) {
        const auto found =
            std::find_if(nodes.begin(), nodes.end(),
                         [&](const SystemNumaNode& entry) { return entry.node.index == index; });
        if (locality.numa_node || found == nodes.end())
            return;
        locality = {index, source, found->node.cpus};
    };
    if (const auto own = read_number(device + "/numa_node"); own && *own >= 0)
        take(static_cast<int>(*own), "sysfs numa_node");
    if (locality.numa_node)
        return locality;
    if (const auto bridge = numa_node_of_bridges(device))
        take(*bridge, "numa_node of a bridge above it");
    if (locality.numa_node)
        return locality;

    std::vector<int> machine;
    for (const SystemNumaNode& entry : nodes)
        machine.insert(machine.end(), entry.node.cpus.begin(), entry.node.cpus.end());
    std::sort(machine.begin(), machine.end());
    const auto near = read_list(device + "/local_cpulist");
    if (near && !near->empty() && is_subset(*near, machine) && near->size() < machine.size()) {
        for (const SystemNumaNode& entry : nodes)
            if (is_subset(*near, entry.node.cpus))
                take(entry.node.index, "sysfs local_cpulist");
        locality.source = "sysfs local_cpulist";  // it may span several nodes: then the CPUs are
                                                  // known, the node not
        locality.cpus = *near;
        return locality;
    }
    if (nodes.size() == 1)
        take(nodes.front().node.index, "the only NUMA node");
    return locality;
}

}  // namespace autolaunch::launcher
