// What only NVIDIA's driver knows, through NVML: the MIG devices that a GPU is cut into, memory,
// and NVLinks.

#include "topology/nvml.hpp"
#include "topology/readers.hpp"
#include "topology/system_files.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace autolaunch::launcher {
namespace {

// The driver's folders of GPU instances: there only where a GPU is cut up.
bool has_mig_devices(const TopologyOptions& options) {
    const std::string folder = options.proc_root + "/driver/nvidia/capabilities";
    for (const std::string& gpu : list_directory(folder)) {
        if (!gpu.starts_with("gpu"))
            continue;
        const auto instances = list_directory(folder + "/" + gpu + "/mig");
        if (std::any_of(instances.begin(), instances.end(),
                        [](const std::string& name) { return name.starts_with("gi"); }))
            return true;
    }
    return false;
}

const NvmlDevice* find_device(const std::vector<NvmlDevice>& devices, const Gpu& gpu) {
    for (const NvmlDevice& device : devices)
        if (!device.bdf.empty() && device.bdf == gpu.bdf)
            return &device;
    return nullptr;
}

// CUDA gives out the parts of such a GPU and not the GPU itself.
void add_parts(const Gpu& gpu, const NvmlDevice& device, std::vector<Gpu>& all,
               std::vector<std::string>& notes) {
    if (device.mig_devices.empty())
        notes.push_back(fmt::format(
            "GPU {} is left out: MIG is enabled on it, but it has no MIG device (nvidia-smi mig "
            "-cgi makes some, nvidia-smi -mig 0 disables MIG)",
            gpu.bdf));
    for (const NvmlDevice::MigDevice& mig : device.mig_devices) {
        Gpu part = gpu;
        part.uuid = mig.uuid;
        part.partition_of = gpu.uuid.empty() ? device.uuid : gpu.uuid;
        if (!mig.name.empty())
            part.model = mig.name;
        part.memory_bytes = mig.memory_bytes;
        all.push_back(std::move(part));
    }
}

int count_links(const NvmlDevice& device, const std::string& peer_bdf) {
    int count = 0;
    for (const NvmlDevice::Link& link : device.nvlinks)
        if (peer_bdf.empty() ? link.is_switch : link.peer_bdf == peer_bdf)
            count += link.count;
    return count;
}

// GPUs with links to switches reach each other through them.
std::vector<ToldPath> read_nvlinks(const std::vector<NvmlDevice>& devices) {
    std::vector<ToldPath> paths;
    for (std::size_t i = 0; i < devices.size(); ++i)
        for (std::size_t j = i + 1; j < devices.size(); ++j) {
            const NvmlDevice &a = devices[i], &b = devices[j];
            if (a.bdf.empty() || b.bdf.empty())
                continue;
            const int count =
                count_links(a, b.bdf) + std::min(count_links(a, ""), count_links(b, ""));
            if (count > 0)
                paths.push_back({a.bdf, b.bdf, PathClass::nvlink, count});
        }
    return paths;
}

}  // namespace

void ask_nvidia_driver(const TopologyOptions& options, NodeTopology& topology) {
    const bool is_this_machine = options.sysfs_root == "/sys" && options.proc_root == "/proc";
    if (!is_this_machine && options.nvml_library.empty())
        return;
    if (std::none_of(topology.gpus.begin(), topology.gpus.end(),
                     [](const Gpu& gpu) { return gpu.vendor == "nvidia" && !gpu.bdf.empty(); }))
        return;
    const bool has_mig = has_mig_devices(options);
    if (!has_mig && !options.driver_facts)
        return;
    std::string why;
    const auto nvml = Nvml::load(why, options.nvml_library);
    if (!nvml) {
        topology.notes.push_back(fmt::format(
            "{}: {}",
            has_mig ? "GPUs are cut up with MIG, but the driver cannot be asked for their parts"
                    : "NVIDIA's driver cannot be asked for memory sizes and NVLinks",
            why));
        return;
    }
    const auto devices = nvml->devices({.links = options.driver_facts});
    std::vector<Gpu> all;
    for (Gpu& gpu : topology.gpus) {
        const NvmlDevice* const device =
            gpu.vendor == "nvidia" ? find_device(devices, gpu) : nullptr;
        if (device && device->mig_enabled) {
            add_parts(gpu, *device, all, topology.notes);
            continue;
        }
        if (device) {
            if (gpu.uuid.empty())
                gpu.uuid = device->uuid;
            if (gpu.model.empty())
                gpu.model = device->name;
            gpu.memory_bytes = device->memory_bytes;
        }
        all.push_back(std::move(gpu));
    }
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i].index = static_cast<int>(i);
    topology.gpus = std::move(all);
    for (ToldPath& path : read_nvlinks(devices))
        topology.told_paths.push_back(std::move(path));
}

}  // namespace autolaunch::launcher
