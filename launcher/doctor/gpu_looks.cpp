#include "doctor/examination.hpp"
#include "doctor/looks.hpp"

#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "topology/nvml.hpp"
#include "topology/system_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>

namespace autolaunch::launcher {

namespace {

std::string gpu_name(const NvmlDevice& device) {
    return "GPU " + (device.bdf.empty() ? device.uuid : device.bdf);
}

/// NVIDIA's GPUs as the driver tells them; none, and said why, where it tells nothing.
const std::vector<NvmlDevice>* driver_devices(Examination& exam) {
    const bool shown = std::any_of(exam.topology().gpus.begin(), exam.topology().gpus.end(),
                                   [](const Gpu& gpu) { return gpu.vendor == "nvidia"; });
    if (!shown && !exam.state().driver_is_named()) {
        exam.nothing_to_look_at("no NVIDIA GPU");
        return nullptr;
    }
    const auto& devices = exam.state().driver_devices();
    if (!devices)
        exam.cannot_look("no NVML: " + exam.state().why_no_driver());
    return devices ? &*devices : nullptr;
}

/// Visits every GPU that tells the fact; says that none does.
template <class Fact, class Visit>
void each_fact(Examination& exam, Fact NvmlDevice::*fact, Visit visit) {
    const auto* devices = driver_devices(exam);
    if (devices == nullptr)
        return;
    bool told = false;
    for (const NvmlDevice& device : *devices) {
        if (!(device.*fact))
            continue;
        told = true;
        visit(device, *(device.*fact));
    }
    if (!told)
        exam.nothing_to_look_at("these GPUs do not tell");
}

std::string models_of(const std::vector<std::string>& names) {
    const std::set<std::string> distinct(names.begin(), names.end());
    return join(std::vector<std::string>(distinct.begin(), distinct.end()), ", ");
}

}  // namespace

void look_at_gpus(Examination& exam) {
    const auto& shown = exam.topology().gpus;
    const bool nvidia = exam.state().driver_is_named() ||
                        std::any_of(shown.begin(), shown.end(),
                                    [](const Gpu& gpu) { return gpu.vendor == "nvidia"; });
    std::vector<std::string> models;
    if (!nvidia) {
        exam.fact("gpu.count", std::to_string(shown.size()));
        for (const Gpu& gpu : shown)
            models.push_back(gpu.model);
        if (!models.empty())
            exam.fact("gpu.models", models_of(models));
        if (shown.empty())
            exam.nothing_to_look_at("no GPU");
        return;
    }
    const auto* devices = driver_devices(exam);
    if (devices == nullptr)
        return exam.fact("gpu.count", std::to_string(shown.size()));
    std::set<std::string> missing;
    for (const Gpu& gpu : shown)
        if (gpu.vendor == "nvidia" && !gpu.bdf.empty())
            missing.insert(gpu.bdf);
    for (const NvmlDevice& device : *devices)
        missing.erase(device.bdf);
    for (const NvmlDevice& device : *devices) {
        if (device.trouble.empty()) {
            models.push_back(device.name);
        } else if (!device.bdf.empty() || missing.empty()) {
            exam.found(fmt::format("{}: {}", gpu_name(device), device.trouble));
        } else {  // one that is lost has lost its address, too
            exam.found(fmt::format("GPU {}: {}", *missing.begin(), device.trouble));
            missing.erase(missing.begin());
        }
    }
    for (const std::string& bdf : missing)
        exam.found(fmt::format("GPU {} is on the PCI bus, and its driver does not know it", bdf));
    exam.fact("gpu.count", std::to_string(models.size()));
    exam.fact("gpu.models", models_of(models));
    exam.fact("gpu.driver", exam.state().driver_version());
}

void look_at_ecc(Examination& exam) {
    each_fact(exam, &NvmlDevice::uncorrected_ecc_errors,
              [&](const NvmlDevice& device, std::uint64_t count) {
                  if (count > 0)
                      exam.found(fmt::format("{} has had {} uncorrected memory errors",
                                             gpu_name(device), count));
              });
}

void look_at_row_remap(Examination& exam) {
    const auto* devices = driver_devices(exam);
    if (devices == nullptr)
        return;
    bool told = false;
    for (const NvmlDevice& device : *devices) {
        told = told || device.row_remap_pending || device.row_remap_failed;
        if (device.row_remap_failed.value_or(false))
            exam.found(Severity::fail,
                       gpu_name(device) + " could not remap a bad row of its memory",
                       "replace the GPU");
        else if (device.row_remap_pending.value_or(false))
            exam.found(gpu_name(device) + " waits to remap a bad row of its memory");
    }
    if (!told)
        exam.nothing_to_look_at("these GPUs do not tell");
}

void look_at_nvlink(Examination& exam) {
    each_fact(exam, &NvmlDevice::nvlink_errors, [&](const NvmlDevice& device, std::uint64_t count) {
        if (count > 0)
            exam.found(fmt::format("{} has had {} NVLink errors", gpu_name(device), count));
    });
    const auto& devices = exam.state().driver_devices();
    if (!devices)
        return;
    // GPUs of one node have as many links each.
    std::map<int, std::vector<std::string>> by_count;
    for (const NvmlDevice& device : *devices) {
        int count = 0;
        for (const NvmlDevice::Link& link : device.nvlinks)
            count += link.count;
        if (device.trouble.empty())
            by_count[count].push_back(gpu_name(device));
    }
    for (auto entry = by_count.begin(); by_count.size() > 1 && std::next(entry) != by_count.end();
         ++entry)
        exam.found(fmt::format("{} has {} active NVLinks, {} has {}", join(entry->second, ", "),
                               entry->first, by_count.rbegin()->second.front(),
                               by_count.rbegin()->first));
}

// NVML's nvmlClocksEventReason…: those that mean trouble, not those of idle or capped GPUs.
void look_at_gpu_clocks(Examination& exam) {
    struct Reason {
        std::uint64_t bit;
        const char* name;
    };
    static constexpr std::array<Reason, 4> kReasons = {{{0x08, "hardware slowdown"},
                                                        {0x20, "software thermal slowdown"},
                                                        {0x40, "hardware thermal slowdown"},
                                                        {0x80, "power brake"}}};
    each_fact(
        exam, &NvmlDevice::clock_event_reasons, [&](const NvmlDevice& device, std::uint64_t mask) {
            std::vector<std::string> names;
            for (const Reason& reason : kReasons)
                if ((mask & reason.bit) != 0)
                    names.emplace_back(reason.name);
            if (!names.empty())
                exam.found(fmt::format("{} is slowed: {}", gpu_name(device), join(names, ", ")));
        });
}

// The speed of an idle GPU's link falls to save power; its width does not.
void look_at_gpu_pcie(Examination& exam) {
    each_fact(exam, &NvmlDevice::pcie_width, [&](const NvmlDevice& device, int width) {
        if (device.pcie_max_width && width < *device.pcie_max_width)
            exam.found(fmt::format("{} runs with x{}, can x{}", gpu_name(device), width,
                                   *device.pcie_max_width));
    });
}

void look_at_fabric(Examination& exam) {
    constexpr int kCompleted = 3;
    bool several_nodes = false;
    std::set<std::string> cliques;
    each_fact(
        exam, &NvmlDevice::fabric, [&](const NvmlDevice& device, const NvmlDevice::Fabric& fabric) {
            if (fabric.state != kCompleted)
                exam.found(fmt::format("{} has not joined the NVLink fabric: state {}",
                                       gpu_name(device), fabric.state));
            else if (fabric.status != 0)
                exam.found(fmt::format("{} was refused by the NVLink fabric: status {}",
                                       gpu_name(device), fabric.status));
            several_nodes =
                several_nodes || fabric.cluster_uuid.find_first_not_of("0-") != std::string::npos;
            cliques.insert(fmt::format("{}/{}", fabric.cluster_uuid, fabric.clique));
        });
    if (!several_nodes)
        return;
    exam.fact("gpu.clique", join(std::vector<std::string>(cliques.begin(), cliques.end()), " "));
    if (cliques.size() > 1)
        exam.found(fmt::format("the node's GPUs are in {} NVLink cliques", cliques.size()));
    const std::string channel = exam.dev("/nvidia-caps-imex-channels/channel0");
    const UniqueFd fd(::open(channel.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd)
        exam.found(Severity::fail,
                   fmt::format("{}: {}, and GPUs of other nodes are reached through it", channel,
                               std::strerror(errno)),
                   "start nvidia-imex, and give the job an IMEX channel (Slurm: "
                   "SwitchType=switch/nvidia_imex)");
}

void look_at_gpu_processes(Examination& exam) {
    const auto* devices = driver_devices(exam);
    if (devices == nullptr)
        return;
    for (const NvmlDevice& device : *devices)
        for (const NvmlDevice::Process& process : device.compute_processes) {
            const std::string program =
                read_small(exam.proc(fmt::format("/{}/comm", process.pid))).value_or("");
            exam.found(fmt::format("{} is used by process {}{}, {} MiB", gpu_name(device),
                                   process.pid, program.empty() ? "" : " (" + program + ")",
                                   process.memory_bytes >> 20));
        }
}

void look_at_compute_mode(Examination& exam) {
    each_fact(exam, &NvmlDevice::compute_mode, [&](const NvmlDevice& device, int mode) {
        if (mode == 2)
            exam.found(gpu_name(device) + " lets no program compute (mode prohibited)");
        if (mode == 3)
            exam.found(gpu_name(device) + " takes one process only (mode exclusive)");
    });
}

}  // namespace autolaunch::launcher
