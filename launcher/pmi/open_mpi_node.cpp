#include "pmi/open_mpi_node.hpp"

#include "base/file_system.hpp"
#include "base/read_at_most.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <string_view>
#include <system_error>
#include <vector>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostParameterBytes = std::size_t{1} << 20;
constexpr const char* kMemory = "/dev/shm";

// A network that MPI libraries drive themselves: InfiniBand, RoCE, Omni-Path, EFA (verbs devices)
// or Slingshot.
bool has_fabric(const fs::path& sysfs) {
    for (const char* device_class : {"class/infiniband", "class/cxi"}) {
        std::error_code missing;
        if (!list_folder(sysfs / device_class, missing).empty())
            return true;
    }
    return false;
}

// The user's own Open MPI parameter file, $HOME/.openmpi/mca-params.conf, names transports (pml,
// btl or mtl).
bool user_names_transport(const std::vector<std::string>& environment) {
    constexpr std::string_view kHome = "HOME=";
    for (const std::string& variable : environment) {
        if (!variable.starts_with(kHome))
            continue;
        try {
            const auto file = fs::path(variable.substr(kHome.size())) / ".openmpi/mca-params.conf";
            for (const auto& line : split(read_regular_file(file, kMostParameterBytes), '\n')) {
                const std::string_view key = trim(std::string_view(line).substr(0, line.find('=')));
                if (key == "pml" || key == "btl" || key == "mtl")
                    return true;
            }
        } catch (const Error&) {  // there is none
        }
    }
    return false;
}

// On a file system that never writes to a disk.
bool is_in_memory(const fs::path& path) {
    struct statfs system {};
    return ::statfs(path.c_str(), &system) == 0 && system.f_type == TMPFS_MAGIC;
}

}  // namespace

OpenMpiNode look_for_open_mpi(const MpiJob& job) {
    return {.shared_memory = {},
            .has_fabric = has_fabric("/sys"),
            .user_transport = user_names_transport(job.environment),
            .oversubscribed = job.oversubscribed};
}

// Open MPI names its segments by a short hash of the job and keeps them in /dev/shm: two jobs may
// get each other's.
SegmentFolder find_segment_folder(const fs::path& directory) {
    const fs::path parent = directory.parent_path();
    if (is_in_memory(parent))
        return {directory / "job", false};
    if (::access(kMemory, W_OK | X_OK) != 0)
        return {};
    const std::string unique = parent.filename().string() + '-' + directory.filename().string();
    return {fs::path(kMemory) / unique, true};
}

}  // namespace autolaunch::launcher
