#include "cli/nccl_site.hpp"

#include "base/file_io.hpp"
#include "cli/profile_folder.hpp"
#include "nccl_env/nccl_conf.hpp"
#include "nccl_env/site.hpp"
#include "spec/profile.hpp"
#include "topology/machine_identity.hpp"

#include <autolaunch/error.hpp>

#include <filesystem>
#include <optional>

namespace autolaunch::launcher {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMostBytes = 1 << 20;  // of a topology file

// Beside the program, installed or built: launcher/CMakeLists.txt says how far.
std::string profile_folder() {
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    return (program.parent_path() / kProfilesFromProgram).lexically_normal();
}

std::string fitting_topology_file(const std::vector<std::string>& paths, const NodeTopology& topology) {
    for (const std::string& path : paths) {
        std::error_code error;
        if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > kMostBytes || error) continue;
        try {
            if (topology_file_fits(read_file(path), topology)) return path;
        } catch (const Error&) {  // not readable for us, so not for NCCL
        }
    }
    return {};
}

std::optional<ProfileFile> choose_profile(const std::string& word) {
    if (word == "none") return std::nullopt;
    const std::string folder = profile_folder();
    if (word != "auto") return find_profile(word, folder);
    std::vector<ProfileFile> profiles;
    for (const std::string& name : profile_names(folder)) profiles.push_back(find_profile(name, folder));
    const ProfileFile* fits = matching_profile(profiles, read_machine_identity());
    return fits != nullptr ? std::optional(*fits) : std::nullopt;
}

}  // namespace

NcclSite read_nccl_site(const JobSpec& spec, const EnvironmentMap& environment, const NodeTopology& topology,
                        const std::string& local_address) {
    NcclSite site;
    const auto profile =
        spec.nccl.profile == "auto" && topology.gpus.empty() ? std::nullopt : choose_profile(spec.nccl.profile);
    if (topology.gpus.empty()) return site;
    const fs::path workdir = fs::absolute(spec.trainer.workdir.empty() ? "." : spec.trainer.workdir);
    site.conf = read_nccl_conf(settings_of_user(spec, environment), {home_of_user(), workdir});
    if (profile)
        site.profile =
            to_nccl_profile(*profile, topology, fitting_topology_file(profile->topology_files.paths, topology));
    site.rendezvous_interface = interface_with_address(topology, local_address);
    site.rendezvous_is_ipv6_only = is_ipv6_only(topology, local_address);
    return site;
}

}  // namespace autolaunch::launcher
