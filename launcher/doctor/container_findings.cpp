#include "doctor/container_findings.hpp"

#include "base/dotted_version.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr char kStart[] = "container", kDriver[] = "container_driver", kNccl[] = "container_nccl",
               kPlugin[] = "container_plugin", kDevices[] = "container_devices";

// NVIDIA's table of minor version compatibility (CUDA Compatibility, Linux x86_64).
constexpr std::array<std::pair<int, const char*>, 3> kOldestDrivers = {
    {{13, "580.65.06"}, {12, "525.60.13"}, {11, "450.80.02"}}};

class Judge {
public:
    Judge(const std::string& node, const ContainerExamined& examined) : examined_(examined) {
        report_.node = node;
    }
    NodeReport judge();

private:
    std::string first(const char* key) const {
        const auto found = examined_.said.find(key);
        return found == examined_.said.end() ? std::string() : found->second.front();
    }
    std::vector<std::string> all(const char* key) const {
        const auto found = examined_.said.find(key);
        return found == examined_.said.end() ? std::vector<std::string>() : found->second;
    }
    void found(const char* check, Severity severity, std::string what, std::string fix) {
        report_.findings.push_back({check, severity, std::move(what), std::move(fix)});
    }
    void unknown(const char* check, std::string why) {
        report_.unchecked.push_back({check, std::move(why)});
    }
    void judge_driver();
    void judge_nccl();
    void judge_plugin();
    void judge_devices();

    const ContainerExamined& examined_;
    NodeReport report_;
};

NodeReport Judge::judge() {
    if (!examined_.said.contains("shell")) {
        found(kStart, Severity::fail, "the image does not start: " + examined_.trouble,
              "fetch it on this node (podman pull, apptainer pull, enroot import), or look at its "
              "name; ranks and this check need /bin/sh in it");
        return std::move(report_);
    }
    report_.fine.emplace_back(kStart);
    judge_driver();
    judge_devices();
    judge_nccl();
    judge_plugin();
    return std::move(report_);
}

void Judge::judge_driver() {
    const std::string cuda = first("cuda");
    if (cuda.empty())
        return unknown(kDriver,
                       "the image does not say which CUDA it has (CUDA_VERSION); Python "
                       "packages bring their own");
    report_.facts["image.cuda"] = cuda;
    if (examined_.driver.empty())
        return unknown(kDriver, "the image has CUDA " + cuda + ", and this node no NVIDIA driver");
    const std::string oldest = oldest_driver_for(cuda);
    if (oldest.empty())
        return unknown(kDriver, "which driver CUDA " + cuda + " needs is not known here");
    if (dotted_numbers(examined_.driver) >= dotted_numbers(oldest)) {
        report_.fine.emplace_back(kDriver);
        return;
    }
    const std::string what = fmt::format(
        "the image has CUDA {}, which needs driver {} or later; "
        "this node has {}",
        cuda, oldest, examined_.driver);
    if (!examined_.cuda_compat.empty())
        return found(kDriver, Severity::warn,
                     what + "; container.cuda_compat gives ranks its library",
                     "it makes up for the driver on data-center GPUs alone; else a newer driver or "
                     "an older image");
    if (const std::string compat = first("compat"); !compat.empty())
        return found(kDriver, Severity::warn, what + "; the image brings " + compat,
                     "on data-center GPUs that library makes up for it, if LD_LIBRARY_PATH in the "
                     "image has its folder; else a newer driver or an older image");
    found(kDriver, Severity::fail, what,
          examined_.node_compat.empty()
              ? "a newer driver, an older image, or cuda-compat in it or on the node "
                "(container.cuda_compat)"
              : "on data-center GPUs: container.cuda_compat: " + examined_.node_compat +
                    ", which this node has; else a newer driver or an older image");
}

void Judge::judge_devices() {
    const bool has_gpus = !examined_.driver.empty() || examined_.has_amd;
    if (!has_gpus) {
        report_.idle.push_back({kDevices, "no GPU"});
        return;
    }
    if (first("gpu").empty())
        return found(kDevices, Severity::fail, "no GPU is seen inside",
                     examined_.runtime == "podman"
                         ? "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
                         : "look at the runtime's configuration: nv of apptainer.conf, enroot's "
                           "hook 98-nvidia.sh");
    if (!examined_.driver.empty() && first("libcuda").empty())
        return found(kDevices, Severity::warn, "GPUs are seen inside, and no libcuda.so.1",
                     "the driver's libraries are not passed on: podman needs "
                     "/etc/cdi/nvidia.yaml, apptainer --nv, enroot libnvidia-container");
    report_.fine.emplace_back(kDevices);
}

void Judge::judge_nccl() {
    std::vector<std::string> libraries = all("nccl");
    for (const std::string& wheel : all("wheel"))
        libraries.push_back(wheel);
    if (libraries.empty())
        return unknown(kNccl,
                       "no libnccl.so.2 is where the loader and Python's packages have it; "
                       "it may be linked into a program");
    report_.facts["image.nccl"] = join(libraries, ", ");
    if (libraries.size() > 1)
        return found(kNccl, Severity::hint, "several NCCL: " + join(libraries, ", "),
                     "which one a trainer loads, NCCL_DEBUG=VERSION says; all nodes need the same");
    found(kNccl, Severity::info, libraries.front(), "all nodes need the same image");
}

void Judge::judge_plugin() {
    if (const auto plugins = all("plugin"); !plugins.empty())
        return found(kPlugin, Severity::info, "network plugin " + join(plugins, ", "),
                     "NCCL loads it where NCCL_NET_PLUGIN names it, or none is named");
    if (!examined_.has_hcas) {
        report_.idle.push_back({kPlugin, "no HCA on this node, and no plugin in the image"});
        return;
    }
    report_.fine.emplace_back(kPlugin);  // NCCL's own way to InfiniBand needs none
}

}  // namespace

std::string oldest_driver_for(const std::string& cuda) {
    const auto numbers = dotted_numbers(cuda);
    for (const auto& [major, driver] : kOldestDrivers)
        if (!numbers.empty() && numbers.front() == major)
            return driver;
    return {};
}

NodeReport judge_container(const std::string& node, const ContainerExamined& examined) {
    return Judge(node, examined).judge();
}

}  // namespace autolaunch::launcher
