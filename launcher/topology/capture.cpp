#include "topology/capture.hpp"

#include "base/file_system.hpp"
#include "base/read_at_most.hpp"
#include "base/text.hpp"
#include "topology/capture_parts.hpp"
#include "topology/cpu_sets.hpp"
#include "topology/hwloc_topology.hpp"
#include "topology/machine_identity.hpp"
#include "topology/nccl_topology.hpp"
#include "topology/printable.hpp"
#include "topology/read_topology.hpp"
#include "topology/smi_topology.hpp"
#include "topology/system_files.hpp"
#include "topology/xml.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace fs = std::filesystem;

namespace autolaunch::launcher {
namespace {

constexpr std::size_t kMostBytes = 32 << 20;
constexpr const char* kForms =
    "expected a folder with sys/, hwloc's XML (<topology>), NCCL's XML (<system>) or the output of "
    "nvidia-smi topo -m";

// What a process there might use: the CPUs that were online, cut down to the affinity of the shell
// that copied /proc/self/status, where that was copied too.
std::vector<int> allowed_cpus_of(const TopologyOptions& options) {
    std::vector<int> online =
        read_list(options.sysfs_root + "/devices/system/cpu/online").value_or(std::vector<int>{});
    const auto status = read_fields(options.proc_root + "/self/status");
    const auto told = status.find("Cpus_allowed_list");
    const auto allowed = told == status.end() ? std::nullopt : parse_list(told->second);
    if (!allowed || allowed->empty())
        return online;
    return online.empty() ? *allowed : intersect(online, *allowed);
}

// A copy is read as this machine's /sys is: what is no file, or leads out of it, would make us wait
// or show this machine.
void check_folder(const fs::path& folder) {
    constexpr std::size_t kMostEntries = 1'000'000;
    std::error_code error;
    const std::string root = fs::canonical(folder, error).string() + '/';
    std::vector<fs::path> open = {folder};
    std::size_t seen = 0;
    while (!open.empty()) {
        const std::vector<fs::path> entries = list_folder(open.back(), error);
        open.pop_back();
        for (const fs::path& entry : entries) {
            struct stat status {};
            if (::lstat(entry.c_str(), &status) != 0)
                continue;
            if (++seen > kMostEntries)
                refuse_capture(folder, 0, "it holds more than a million files",
                               "copy the parts that docs/captures.md names");
            if (S_ISLNK(status.st_mode)) {
                const std::string target = fs::canonical(entry, error).string();
                if (!error && !target.starts_with(root))
                    refuse_capture(entry, 0, "it links out of the folder, to " + target,
                                   "copy what it links to");
            } else if (S_ISDIR(status.st_mode)) {
                open.push_back(entry);
            } else if (!S_ISREG(status.st_mode)) {
                refuse_capture(entry, 0, "it is no file, folder or link", "remove it");
            }
        }
    }
}

// LOCAL_RANK i takes ROCm's i-th GPU, and ROCm counts KFD's nodes. rocm-smi sorts by PCI address
// (older versions did not), so its numbers tell something only where they are not in that order.
void note_amd_numbers(NodeTopology& topology, bool by_rocm_smi) {
    int last = -1;
    std::size_t amd = 0;
    bool told = true, in_order = true;
    for (const Gpu& gpu : topology.gpus) {
        if (gpu.vendor != "amd")
            continue;
        ++amd;
        told = told && gpu.runtime_index;
        in_order = in_order && gpu.runtime_index.value_or(last) >= last;
        last = gpu.runtime_index.value_or(last);
    }
    if (amd < 2 || (told && !(by_rocm_smi && in_order)))
        return;
    topology.notes.push_back(
        told ? "AMD GPUs have rocm-smi's numbers, which newer versions give in the order of PCI "
               "addresses: ROCm's own, by which ranks take them, may differ (a folder with "
               "sys/class/kfd tells them)"
             : "ROCm's numbers of AMD GPUs are not told: they are taken in the order of PCI "
               "addresses, which may not be ROCm's");
}

NodeTopology read_folder(const fs::path& folder) {
    check_folder(folder);
    TopologyOptions options;
    options.sysfs_root = folder / "sys";
    options.proc_root = folder / "proc";
    options.dev_root = folder / "dev";
    options.cpu_model = true;
    options.details = true;
    options.may_open = exists;  // a copy's permissions are not the machine's
    if (!is_folder(options.sysfs_root))
        refuse_capture(folder, 0, "the folder has no sys/",
                       "copy /sys of the machine into it: see docs/captures.md");
    const std::vector<int> allowed = allowed_cpus_of(options);
    if (allowed.empty())
        refuse_capture(options.sysfs_root + "/devices/system/cpu/online", 0,
                       "it does not tell which CPUs there are",
                       "copy /sys/devices/system/cpu of the machine too: see docs/captures.md");
    options.allowed_cpus = allowed;
    NodeTopology topology = read_local_topology(options);
    // Neither the name nor the memory of the machine that reads is the captured one's.
    topology.hostname = read_small(options.proc_root + "/sys/kernel/hostname").value_or("");
    topology.identity = read_machine_identity(options.sysfs_root);
    if (!read_list(options.sysfs_root + "/devices/system/node/online")) {
        topology.numa_nodes.clear();
        topology.notes.push_back("NUMA nodes are not told");
    }
    if (!is_folder(options.dev_root))
        topology.notes.push_back(
            "the folder has no dev/: GPUs whose driver names a device node are left out");
    note_amd_numbers(topology, false);
    return topology;
}

std::string read_capture_file(const std::string& path) {
    if (!path_exists(path))
        refuse_capture(path, 0, "there is no such file", kForms);
    if (!is_file(path))
        refuse_capture(path, 0, "it is no file and no folder", kForms);
    if (file_bytes(path) > kMostBytes)
        refuse_capture(path, 0, "it is larger than 32 MiB", kForms);
    const std::string text = read_regular_file(path, kMostBytes);
    if (trim(text).empty())
        refuse_capture(path, 0, "it is empty", kForms);
    if (text.find('\0') != text.npos)
        refuse_capture(path, 0, "it is no text", kForms);
    return text;
}

NodeTopology read_file_capture(const std::string& path) {
    const std::string text = read_capture_file(path);
    std::string_view start = text;
    if (start.starts_with("\xef\xbb\xbf"))
        start.remove_prefix(3);  // a byte order mark
    if (!trim(start).starts_with('<'))
        return read_smi_topology(text, path);
    // What comes before the declaration would offend the parser, and lines must count from the
    // file's start.
    XmlElement root = parse_xml(text, path);
    if (root.name == "system") {
        NodeTopology topology = read_nccl_topology(root, path);
        note_amd_numbers(topology, false);
        return topology;
    }
    if (root.name == "topology") {
        check_hwloc_bounds(root, path);
        root = {};  // hwloc reads it again, in a process of its own
        NodeTopology topology = read_hwloc_topology(path);
        note_amd_numbers(topology, true);
        return topology;
    }
    refuse_capture(path, root.line, fmt::format("the XML is of <{:.40}>", printable(root.name)),
                   kForms);
}

}  // namespace

NodeTopology read_capture(const std::string& path) try {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 && errno == ELOOP)
        refuse_capture(path, 0, "its links lead in a circle", "name the file or folder itself");
    NodeTopology topology = is_folder(path) ? read_folder(path) : read_file_capture(path);
    const fs::path named = fs::path(path).lexically_normal();
    topology.source = named.has_filename() ? named.filename() : named.parent_path().filename();
    make_printable(topology);
    return topology;
} catch (const SystemError& cannot) {
    refuse_capture(path, 0, cannot.what());
}

}  // namespace autolaunch::launcher
