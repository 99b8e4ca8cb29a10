#include "base/text.hpp"
#include "topology/cpu_sets.hpp"
#include "topology/readers.hpp"
#include "topology/system_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

namespace autolaunch::launcher {
namespace {

constexpr std::string_view kNvidia = "nvidia", kAmd = "amd";

struct Candidate {
    std::string bdf;
    std::string_view vendor;
};

// A driver's folder names the devices it runs: far cheaper than asking every PCI function for its
// class. A GPU without a driver, or one lent to a virtual machine, cannot run a rank.
std::vector<Candidate> find_candidates(const std::string& sysfs_root) {
    std::vector<Candidate> candidates;
    for (const auto& [driver, vendor, vendor_id] :
         {std::tuple{"nvidia", kNvidia, "0x10de"}, std::tuple{"amdgpu", kAmd, "0x1002"}}) {
        for (const std::string& name :
             list_directory(fmt::format("{}/bus/pci/drivers/{}", sysfs_root, driver))) {
            const std::string device = fmt::format("{}/bus/pci/devices/{}", sysfs_root, name);
            if (std::count(name.begin(), name.end(), ':') != 2)
                continue;  // bind, new_id, module, …
            if (read_small(device + "/vendor") != vendor_id)
                continue;
            // Display controllers, and the processing accelerators that MI300 calls itself; not
            // their audio functions.
            const std::string pci_class = read_small(device + "/class").value_or("");
            if (pci_class.starts_with("0x03") || pci_class.starts_with("0x12"))
                candidates.push_back({name, vendor});
        }
    }
    std::sort(candidates.begin(), candidates.end(),
              [](const Candidate& a, const Candidate& b) { return a.bdf < b.bdf; });
    return candidates;
}

void describe_nvidia(const TopologyOptions& options, Gpu& gpu, std::string& device_node) {
    const auto fields = read_fields(
        fmt::format("{}/driver/nvidia/gpus/{}/information", options.proc_root, gpu.bdf));
    const auto field = [&](const char* key) {
        const auto found = fields.find(key);
        return found == fields.end() ? std::string() : found->second;
    };
    gpu.model = field("Model");
    gpu.uuid = field("GPU UUID");
    if (gpu.uuid.find('?') != std::string::npos)
        gpu.uuid.clear();  // the driver writes ??? before the first use
    const std::string minor = field("Device Minor");
    device_node = minor.empty() ? "" : fmt::format("{}/nvidia{}", options.dev_root, minor);
}

// Several KFD nodes at one address are parts of one GPU. ROCm numbers GPUs in the order of KFD
// nodes, not by PCI address.
std::vector<Gpu> describe_amd(const TopologyOptions& options, const Gpu& located,
                              const std::vector<KfdNode>& nodes) {
    const std::string device =
        fmt::format("{}/bus/pci/devices/{}", options.sysfs_root, located.bdf);
    Gpu whole = located;
    whole.model = read_small(device + "/product_name").value_or("");
    if (const auto unique = read_small(device + "/unique_id"); unique && !unique->empty())
        whole.uuid = "GPU-" + *unique;
    const auto vram = read_number(device + "/mem_info_vram_total");
    if (vram && *vram > 0)
        whole.memory_bytes = static_cast<std::uint64_t>(*vram);
    std::vector<const KfdNode*> own;
    for (const KfdNode& node : nodes)
        if (node.bdf == whole.bdf)
            own.push_back(&node);
    if (own.size() == 1) {
        whole.runtime_index = own.front()->runtime_index;
        if (whole.uuid.empty())
            whole.uuid = own.front()->uuid;
        if (whole.memory_bytes == 0)
            whole.memory_bytes = own.front()->memory_bytes;
    }
    if (own.size() < 2)
        return {whole};
    const std::string mode = read_small(device + "/current_compute_partition").value_or("");
    std::set<std::string> uuids;
    for (const KfdNode* node : own)
        uuids.insert(node->uuid);
    std::vector<Gpu> parts;
    for (const KfdNode* node : own) {
        Gpu part = whole;
        part.partition_of = whole.uuid.empty() ? whole.bdf : whole.uuid;
        part.uuid =
            uuids.size() == own.size() ? node->uuid : "";  // older drivers give all parts the GPU's
        part.memory_bytes = node->memory_bytes;
        part.runtime_index = node->runtime_index;
        if (!mode.empty())
            part.model += fmt::format("{}{}", part.model.empty() ? "" : " ", mode);
        parts.push_back(std::move(part));
    }
    return parts;
}

// "nvidia0", "nvidia12", but not "nvidiactl" or "nvidia-uvm".
std::vector<Gpu> read_device_nodes(const TopologyOptions& options) {
    std::vector<Gpu> gpus;
    for (const std::string& name : list_directory(options.dev_root)) {
        long long minor = 0;
        if (!name.starts_with("nvidia") || name.size() == 6 || name[6] < '0' || name[6] > '9')
            continue;
        if (!parse_integer(std::string_view(name).substr(6), minor))
            continue;
        Gpu gpu;
        gpu.vendor = "nvidia";
        gpu.index = static_cast<int>(minor);
        gpu.numa_source = "the PCI bus is not shown";
        gpu.can_open = may_open(options, options.dev_root + "/" + name);
        gpus.push_back(std::move(gpu));
    }
    std::sort(gpus.begin(), gpus.end(),
              [](const Gpu& a, const Gpu& b) { return a.index < b.index; });
    return gpus;
}

bool is_shown(const TopologyOptions& options, const Candidate& candidate,
              const std::vector<KfdNode>& kfd_nodes) {
    if (candidate.vendor == kNvidia) {
        // Container runtimes show only the GPUs that they pass on.
        const std::string folder = options.proc_root + "/driver/nvidia/gpus";
        return !exists(folder) || exists(folder + "/" + candidate.bdf);
    }
    // A chip without compute, or one that a device cgroup keeps from us, has no KFD node.
    return !has_kfd(options) ||
           std::any_of(kfd_nodes.begin(), kfd_nodes.end(),
                       [&](const KfdNode& node) { return node.bdf == candidate.bdf; });
}

Gpu locate(const TopologyOptions& options, const Candidate& candidate,
           const std::vector<int>& allowed_cpus, const std::vector<SystemNumaNode>& nodes) {
    Locality locality = read_pci_locality(options.sysfs_root, candidate.bdf, nodes);
    Gpu gpu;
    gpu.bdf = candidate.bdf;
    gpu.vendor = candidate.vendor;
    gpu.numa_node = locality.numa_node;
    gpu.numa_source = std::move(locality.source);
    gpu.local_cpus = intersect(locality.cpus, allowed_cpus);
    gpu.pci_path = read_pci_path(options.sysfs_root, candidate.bdf);
    return gpu;
}

}  // namespace

std::vector<Gpu> read_gpus(const TopologyOptions& options, const std::vector<int>& allowed_cpus,
                           const std::vector<SystemNumaNode>& nodes,
                           std::vector<std::string>& notes) {
    const auto candidates = find_candidates(options.sysfs_root);
    if (candidates.empty())
        return read_device_nodes(options);
    const bool any_amd =
        std::any_of(candidates.begin(), candidates.end(),
                    [](const Candidate& candidate) { return candidate.vendor == kAmd; });
    const auto kfd_nodes = any_amd ? read_kfd_gpus(options) : std::vector<KfdNode>{};
    std::vector<Gpu> gpus;
    for (const Candidate& candidate : candidates) {
        if (!is_shown(options, candidate, kfd_nodes))
            continue;
        Gpu gpu = locate(options, candidate, allowed_cpus, nodes);
        std::string device_node = options.dev_root + "/kfd";
        if (candidate.vendor == kNvidia)
            describe_nvidia(options, gpu, device_node);
        if (!device_node.empty() && !exists(device_node)) {
            notes.push_back(fmt::format(
                "GPU {} is left out: it has a driver but no {} (run nvidia-smi or rocm-smi once, "
                "or start the container with its GPUs)",
                candidate.bdf, device_node));
            continue;
        }
        gpu.can_open = device_node.empty() || may_open(options, device_node);
        if (candidate.vendor == kNvidia) {
            gpus.push_back(std::move(gpu));
        } else {
            for (Gpu& part : describe_amd(options, gpu, kfd_nodes))
                gpus.push_back(std::move(part));
        }
    }
    for (std::size_t i = 0; i < gpus.size(); ++i)
        gpus[i].index = static_cast<int>(i);
    return gpus;
}

}  // namespace autolaunch::launcher
