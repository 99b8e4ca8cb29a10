#include "base/text.hpp"
#include "topology/readers.hpp"
#include "topology/system_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace autolaunch::launcher {
namespace {

struct Candidate {
    std::string bdf;
    const char* vendor;
};

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// A driver's folder names the devices it runs: far cheaper than asking every PCI function for its class. A GPU without
// a driver, or one lent to a virtual machine, cannot run a rank.
std::vector<Candidate> find_candidates(const std::string& sysfs_root) {
    std::vector<Candidate> candidates;
    for (const auto& [driver, vendor, vendor_id] :
         {std::tuple{"nvidia", "nvidia", "0x10de"}, std::tuple{"amdgpu", "amd", "0x1002"}}) {
        for (const std::string& name : list_directory(fmt::format("{}/bus/pci/drivers/{}", sysfs_root, driver))) {
            const std::string device = fmt::format("{}/bus/pci/devices/{}", sysfs_root, name);
            if (std::count(name.begin(), name.end(), ':') != 2) continue;  // bind, new_id, module, …
            if (read_small(device + "/vendor") != vendor_id) continue;
            // Display controllers, and the processing accelerators that MI300 calls itself; not their audio functions.
            const std::string pci_class = read_small(device + "/class").value_or("");
            if (pci_class.starts_with("0x03") || pci_class.starts_with("0x12")) candidates.push_back({name, vendor});
        }
    }
    std::sort(candidates.begin(), candidates.end(),
              [](const Candidate& a, const Candidate& b) { return a.bdf < b.bdf; });
    return candidates;
}

void describe_nvidia(const TopologyOptions& options, Gpu& gpu, std::string& device_node) {
    const auto fields = read_fields(fmt::format("{}/driver/nvidia/gpus/{}/information", options.proc_root, gpu.bdf));
    const auto field = [&](const char* key) {
        const auto found = fields.find(key);
        return found == fields.end() ? std::string() : found->second;
    };
    gpu.model = field("Model");
    gpu.uuid = field("GPU UUID");
    if (gpu.uuid.find('?') != std::string::npos) gpu.uuid.clear();  // the driver writes ??? before the first use
    if (const std::string minor = field("Device Minor"); !minor.empty())
        device_node = fmt::format("{}/nvidia{}", options.dev_root, minor);
}

void describe_amd(const TopologyOptions& options, Gpu& gpu, std::string& device_node) {
    const std::string device = fmt::format("{}/bus/pci/devices/{}", options.sysfs_root, gpu.bdf);
    gpu.model = read_small(device + "/product_name").value_or("");
    if (const auto unique = read_small(device + "/unique_id"); unique && !unique->empty()) gpu.uuid = "GPU-" + *unique;
    device_node = options.dev_root + "/kfd";
}

// "nvidia0", "nvidia12", but not "nvidiactl" or "nvidia-uvm".
std::vector<Gpu> read_device_nodes(const std::string& dev_root) {
    std::vector<Gpu> gpus;
    for (const std::string& name : list_directory(dev_root)) {
        long long minor = 0;
        if (!name.starts_with("nvidia") || name.size() == 6 || name[6] < '0' || name[6] > '9') continue;
        if (!parse_integer(std::string_view(name).substr(6), minor)) continue;
        Gpu gpu;
        gpu.vendor = "nvidia";
        gpu.index = static_cast<int>(minor);
        gpu.numa_source = "the PCI bus is not shown";
        gpus.push_back(std::move(gpu));
    }
    std::sort(gpus.begin(), gpus.end(), [](const Gpu& a, const Gpu& b) { return a.index < b.index; });
    return gpus;
}

// A parent bridge's node, from the device upwards: …/pci0000:16/0000:16:01.0/0000:17:00.0.
std::optional<int> numa_node_of_bridges(const std::string& device) {
    std::error_code error;
    std::filesystem::path path = std::filesystem::canonical(device, error);
    if (error) return std::nullopt;
    for (path = path.parent_path(); path.has_relative_path(); path = path.parent_path()) {
        if (const auto node = read_number(path / "numa_node"); node && *node >= 0) return static_cast<int>(*node);
        if (path.filename().string().starts_with("pci")) break;
    }
    return std::nullopt;
}

}  // namespace

Locality read_pci_locality(const std::string& sysfs_root, const std::string& bdf,
                           const std::vector<SystemNumaNode>& nodes) {
    const std::string device = fmt::format("{}/bus/pci/devices/{}", sysfs_root, bdf);
    Locality locality;
    const auto take = [&](int index, const char* source) {
        const auto found = std::find_if(nodes.begin(), nodes.end(),
                                        [&](const SystemNumaNode& entry) { return entry.node.index == index; });
        if (locality.numa_node || found == nodes.end()) return;
        locality = {index, source, found->node.cpus};
    };
    if (const auto own = read_number(device + "/numa_node"); own && *own >= 0)
        take(static_cast<int>(*own), "sysfs numa_node");
    if (locality.numa_node) return locality;
    if (const auto bridge = numa_node_of_bridges(device)) take(*bridge, "numa_node of a bridge above it");
    if (locality.numa_node) return locality;

    std::vector<int> machine;
    for (const SystemNumaNode& entry : nodes)
        machine.insert(machine.end(), entry.node.cpus.begin(), entry.node.cpus.end());
    std::sort(machine.begin(), machine.end());
    const auto near = read_list(device + "/local_cpulist");
    if (near && !near->empty() && is_subset(*near, machine) && near->size() < machine.size()) {
        for (const SystemNumaNode& entry : nodes)
            if (is_subset(*near, entry.node.cpus)) take(entry.node.index, "sysfs local_cpulist");
        locality.source = "sysfs local_cpulist";  // it may span several nodes: then the CPUs are known, the node not
        locality.cpus = *near;
        return locality;
    }
    if (nodes.size() == 1) take(nodes.front().node.index, "the only NUMA node");
    return locality;
}

std::vector<Gpu> read_gpus(const TopologyOptions& options, const std::vector<int>& allowed_cpus,
                           const std::vector<SystemNumaNode>& nodes, std::vector<std::string>& notes) {
    const std::string driver_folder = options.proc_root + "/driver/nvidia/gpus";
    std::vector<Gpu> gpus;
    const auto candidates = find_candidates(options.sysfs_root);
    for (const auto& [bdf, vendor] : candidates) {
        Gpu gpu;
        gpu.bdf = bdf;
        gpu.vendor = vendor;
        std::string device_node;
        if (gpu.vendor == "nvidia") {
            // Container runtimes show only the GPUs that they pass on.
            if (exists(driver_folder) && !exists(driver_folder + "/" + bdf)) continue;
            describe_nvidia(options, gpu, device_node);
        } else {
            describe_amd(options, gpu, device_node);
        }
        if (!device_node.empty() && !exists(device_node)) {
            notes.push_back(
                fmt::format("GPU {} is left out: it has a driver but no {} (run nvidia-smi or rocm-smi once, "
                            "or start the container with its GPUs)",
                            bdf, device_node));
            continue;
        }
        Locality locality = read_pci_locality(options.sysfs_root, bdf, nodes);
        gpu.numa_node = locality.numa_node;
        gpu.numa_source = std::move(locality.source);
        gpu.local_cpus = intersect(locality.cpus, allowed_cpus);
        gpu.index = static_cast<int>(gpus.size());
        gpus.push_back(std::move(gpu));
    }
    return candidates.empty() ? read_device_nodes(options.dev_root) : gpus;
}

}  // namespace autolaunch::launcher
