#include "doctor/examination.hpp"

#include "doctor/check.hpp"
#include "nccl_env/nccl_conf.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

const NodeTopology& ExaminedNode::topology() {
    if (!topology_) {
        TopologyOptions options = sources_.roots;
        options.details = true;
        topology_ = read_local_topology(options);
    }
    return *topology_;
}

bool ExaminedNode::driver_is_named() const {
    const auto named = sources_.environment.find("AUTOLAUNCH_NVML_LIBRARY");
    return !sources_.nvml_library.empty() ||
           (named != sources_.environment.end() && !named->second.empty());
}

const std::optional<std::vector<NvmlDevice>>& ExaminedNode::driver_devices() {
    if (std::exchange(driver_asked_, true))
        return devices_;
    if (const auto nvml = Nvml::load(why_no_driver_, sources_.nvml_library)) {
        driver_version_ = nvml->driver_version();
        devices_ = nvml->devices({.processes = true, .health = true, .links = true});
    }
    return devices_;
}

const VerbsDevice* ExaminedNode::verbs_device(const std::string& hca) {
    if (!std::exchange(verbs_asked_, true))
        verbs_ = ask_verbs(why_no_verbs_, sources_.verbs_library);
    if (!verbs_)
        return nullptr;
    const auto found = std::find_if(verbs_->begin(), verbs_->end(),
                                    [&](const VerbsDevice& d) { return d.name == hca; });
    if (found == verbs_->end()) {
        why_no_verbs_ = "libibverbs does not list " + hca + ": its provider is not installed";
    } else if (!found->trouble.empty()) {
        why_no_verbs_ = hca + " cannot be opened: " + found->trouble;
    } else {
        return &*found;
    }
    return nullptr;
}

const NcclConf& ExaminedNode::nccl_conf() {
    if (!conf_) {
        std::error_code error;
        conf_ = read_nccl_conf(sources_.environment,
                               {.home = sources_.home,
                                .working_dir = std::filesystem::current_path(error),
                                .system_file = sources_.etc_root + "/nccl.conf"});
    }
    return *conf_;
}

EnvironmentMap ExaminedNode::nccl_settings() {
    EnvironmentMap settings = sources_.environment;
    for (const VariableChoice& setting : nccl_conf().settings)
        settings.emplace(setting.name, setting.value);
    return settings;
}

void Examination::found(const std::string& what) { found(check_.severity, what); }

void Examination::found(Severity severity, const std::string& what, const std::string& fix) {
    report_.findings.push_back(
        {std::string(check_.name), severity, what, fix.empty() ? std::string(check_.fix) : fix});
}

void Examination::nothing_to_look_at(const std::string& why) {
    report_.idle.push_back({std::string(check_.name), why});
}

void Examination::cannot_look(const std::string& why) {
    report_.unchecked.push_back({std::string(check_.name), why});
}

NodeReport Examination::take() {
    if (report_.findings.empty() && report_.idle.empty() && report_.unchecked.empty())
        report_.fine.emplace_back(check_.name);
    return std::move(report_);
}

}  // namespace autolaunch::launcher
