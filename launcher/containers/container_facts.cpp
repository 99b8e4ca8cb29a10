#include "containers/container_facts.hpp"

#include "base/dotted_version.hpp"
#include "base/environment.hpp"
#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/text.hpp"
#include "python_module/plan_python_module.hpp"

#include <autolaunch/error.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;

constexpr const char* kPrograms[] = {"apptainer", "enroot", "podman", "crun"};
constexpr const char* kCdiFolders[] = {"/etc/cdi", "/var/run/cdi"};
/// NCCL's variables that name files or folders.
constexpr const char* kNcclPaths[] = {
    "NCCL_CONF_FILE",  "NCCL_TOPO_FILE",       "NCCL_GRAPH_FILE",  "NCCL_TUNER_PLUGIN",
    "NCCL_NET_PLUGIN", "NCCL_PROFILER_PLUGIN", "NCCL_HOSTID_FILE", "NCCL_TUNER_CONFIG_FILE"};

bool is_there(const fs::path& path) {
    std::error_code error;
    return fs::exists(path, error);
}

std::string find_in_path(const std::string& name, const std::string& path) {
    for (const std::string& folder : split(path, ':')) {
        const std::string file = folder + '/' + name;
        std::error_code error;
        if (!folder.empty() && ::access(file.c_str(), X_OK) == 0 &&
            fs::is_regular_file(file, error))
            return file;
    }
    return {};
}

std::string limits_of(int resource) {
    rlimit limit{};
    ::getrlimit(static_cast<__rlimit_resource>(resource), &limit);
    const auto text = [](rlim_t value) {
        return value == RLIM_INFINITY ? "-1" : std::to_string(value);
    };
    return text(limit.rlim_cur) + ':' + text(limit.rlim_max);
}

std::vector<std::string> device_nodes(const fs::path& folder, std::string_view prefix) {
    std::vector<std::string> nodes;
    std::error_code ignored;
    for (const fs::path& node : list_folder(folder, ignored))
        if (node.filename().string().starts_with(prefix))
            nodes.push_back(node.string());
    std::sort(nodes.begin(), nodes.end());
    return nodes;
}

std::string find_cdi() {
    for (const char* folder : kCdiFolders)
        for (const std::string& file : device_nodes(folder, "nvidia"))
            return file;
    return {};
}

std::vector<std::string> find_nccl_files(const EnvironmentMap& environment) {
    std::vector<std::string> files;
    if (is_there("/etc/nccl.conf"))
        files.emplace_back("/etc/nccl.conf");
    for (const char* name : kNcclPaths)
        if (const std::string path = value_of(environment, name);
            path.starts_with('/') && is_there(path))
            files.push_back(path);
    return files;
}

std::string find_driver() {
    try {
        return nvidia_driver_in(read_file("/proc/driver/nvidia/version"));
    } catch (const Error&) {
        return {};
    }
}

// libcuda.so.1 is a link to the file beside it that has the version in its name.
std::string find_compat(const std::string& folder) {
    std::error_code error;
    const fs::path library = fs::canonical(fs::path(folder) / "libcuda.so.1", error);
    const bool is_inside = !error && library.parent_path() == fs::canonical(folder, error);
    return is_inside && !error ? compat_version_in(library.filename().string()) : std::string();
}

// Where NVIDIA's packages put it: one folder for each CUDA.
std::string find_newest_compat() {
    std::string newest, newest_version;
    for (const std::string& cuda : device_nodes("/usr/local", "cuda"))
        if (const std::string version = find_compat(cuda + "/compat");
            !version.empty() && dotted_numbers(version) > dotted_numbers(newest_version)) {
            newest = cuda + "/compat";
            newest_version = version;
        }
    return newest;
}

}  // namespace

std::string nvidia_driver_in(const std::string& text) {
    // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 …", and of the open
    // modules "… Open Kernel Module for x86_64  560.35.03  Release Build …".
    for (const std::string& word : split(text.substr(0, text.find('\n')), ' '))
        if (is_dotted_version(word))
            return word;
    return {};
}

std::string compat_version_in(const std::string& file) {
    constexpr std::string_view kStem = "libcuda.so.";
    const std::string version = file.starts_with(kStem) ? file.substr(kStem.size()) : "";
    return is_dotted_version(version) ? version : "";
}

ContainerFacts read_container_facts(const ContainerSpec& spec, const EnvironmentMap& environment) {
    ContainerFacts facts;
    for (const char* name : kPrograms)
        if (std::string file = find_in_path(name, value_of(environment, "PATH")); !file.empty())
            facts.programs[name] = std::move(file);
    facts.is_root = ::geteuid() == 0;
    facts.open_files = limits_of(RLIMIT_NOFILE);
    facts.processes = limits_of(RLIMIT_NPROC);
    facts.nvidia_nodes = device_nodes("/dev", "nvidia");
    if (is_there("/dev/kfd"))
        facts.amd_nodes = {"/dev/kfd", "/dev/dri"};
    facts.cdi_file = find_cdi();
    if (is_there("/dev/infiniband"))
        facts.infiniband = "/dev/infiniband";
    facts.nccl_files = find_nccl_files(environment);
    if (const std::string folder = value_of(environment, "TMPDIR");
        folder.starts_with('/') && is_there(folder))
        facts.temporary = folder;
    facts.python_folder = python_module_folder();
    std::error_code error;
    facts.image_is_file = spec.image.starts_with('/') && fs::is_regular_file(spec.image, error);
    facts.nvidia_driver = find_driver();
    facts.newest_compat = find_newest_compat();
    if (!spec.cuda_compat.empty())
        facts.cuda_compat = find_compat(spec.cuda_compat);
    return facts;
}

}  // namespace autolaunch::launcher
