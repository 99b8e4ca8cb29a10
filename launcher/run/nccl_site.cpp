#include "run/nccl_site.hpp"

#include "base/file_system.hpp"
#include "base/read_at_most.hpp"
#include "base/text.hpp"
#include "base/user_database.hpp"
#include "exit_codes/exit_error.hpp"
#include "nccl_env/nccl_conf.hpp"
#include "nccl_env/site.hpp"
#include "run/profile_folder.hpp"
#include "spec/profile.hpp"
#include "topology/machine_identity.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <filesystem>
#include <optional>

namespace autolaunch::launcher {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 1 << 20;  // of a topology file

// Beside the program, installed or built: launcher/CMakeLists.txt says how far.
std::string profile_folder() {
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    return (program.parent_path() / kProfilesFromProgram).lexically_normal();
}

// `root`: where the machine's files are, "" for this one. The path is as the machine knows it.
std::string fitting_topology_file(const std::vector<std::string>& paths,
                                  const NodeTopology& topology, const std::string& root = {}) {
    for (const std::string& path : paths) {
        const std::string here = root + path;
        try {
            if (topology_file_fits(read_regular_file(here, kMostBytes), topology))
                return path;
        } catch (const Error&) {  // not readable for us, so not for NCCL
        }
    }
    return {};
}

ProfileFile named_profile(const std::string& word, const std::string& folder) {
    try {
        return find_profile(word, folder);
    } catch (const SystemError& cannot) {
        throw ExitError(exit_code::kNoInput, cannot.code(),
                        std::string("nccl.profile: ") + cannot.what(), cannot.hint());
    }
}

std::optional<ProfileFile> choose_profile(const std::string& word,
                                          const std::map<std::string, std::string>& identity) {
    if (word == "none")
        return std::nullopt;
    const std::string folder = profile_folder();
    if (word != "auto")
        return named_profile(word, folder);
    std::vector<ProfileFile> profiles;
    for (const std::string& name : profile_names(folder))
        profiles.push_back(find_profile(name, folder));
    const ProfileFile* fits = matching_profile(profiles, identity);
    return fits != nullptr ? std::optional(*fits) : std::nullopt;
}

// What the firmware says, and the fabric that was found.
std::map<std::string, std::string> with_fabric(std::map<std::string, std::string> identity,
                                               const NodeTopology& topology) {
    for (const Hca& hca : topology.hcas)
        if (!hca.ports.empty() && hca.ports.front().link_layer == kSlingshot)
            identity["fabric"] = "slingshot";
    return identity;
}

// NCCL_TOPO_FILE is the user's word, and NCCL takes the file's word for the machine.
void check_topology_file(const EnvironmentMap& settings, const NcclConf& conf,
                         const NodeTopology& topology, const std::string& root, NcclSite& site) {
    constexpr const char* kName = "NCCL_TOPO_FILE";
    std::string path;
    for (const VariableChoice& setting : conf.settings)
        if (setting.name == kName)
            path = setting.value;
    if (const auto own = settings.find(kName); own != settings.end())
        path = own->second;
    if (path.empty())
        return;
    const auto warn = [&](const std::string& what) {
        site.warnings.push_back(fmt::format("{}={}: {}", kName, path, what));
    };
    const std::string here = root + path;
    try {
        if (!is_file(here) || file_bytes(here) > kMostBytes)
            return warn("there is no such file here, or it is larger than 1 MiB; unset it");
        const std::string stranger =
            topology_file_stranger(read_regular_file(here, kMostBytes), topology);
        if (!stranger.empty())
            warn(
                fmt::format("it names {}, which is not here: it is of another machine, and NCCL "
                            "fails or crawls with it; unset it",
                            stranger));
    } catch (const Error& cannot) {
        warn(fmt::format("{}; unset it", cannot.what()));
    }
}

NcclConf read_conf(const JobSpec& spec, const EnvironmentMap& settings, NcclConfPlaces places) {
    const UserRecord user = own_user_record();
    places.home = user.home;
    places.working_dir = absolute_path(spec.trainer.workdir.empty() ? "." : spec.trainer.workdir);
    NcclConf conf = read_nccl_conf(settings, places);
    if (user.answer == DatabaseAnswer::no_answer)
        conf.warnings.push_back(
            "the system's database of users does not answer: where your ~/.nccl.conf is is not "
            "known, and NCCL will wait for the same answer");
    return conf;
}

}  // namespace

NcclSite read_nccl_site(const JobSpec& spec, const EnvironmentMap& environment,
                        const NodeTopology& topology, const std::string& local_address) {
    NcclSite site;
    const auto profile =
        spec.nccl.profile == "auto" && topology.gpus.empty()
            ? std::nullopt
            : choose_profile(spec.nccl.profile, with_fabric(read_machine_identity(), topology));
    if (topology.gpus.empty())
        return site;
    const EnvironmentMap settings = settings_of_user(spec, environment);
    site.conf = read_conf(spec, settings, {});
    check_topology_file(settings, site.conf, topology, "", site);
    if (profile)
        site.profile = to_nccl_profile(
            *profile, topology, fitting_topology_file(profile->topology_files.paths, topology));
    site.rendezvous_interface = interface_with_address(topology, local_address);
    site.rendezvous_is_ipv6_only = is_ipv6_only(topology, local_address);
    return site;
}

SavedSite read_saved_nccl_site(const JobSpec& spec, const EnvironmentMap& environment,
                               const NodeTopology& topology, const std::string& file) {
    SavedSite saved;
    const auto profile =
        choose_profile(spec.nccl.profile, with_fabric(topology.identity, topology));
    if (topology.gpus.empty())
        return saved;
    NcclConfPlaces places;
    const std::string root = is_folder(file) ? file : "";
    if (!root.empty() && path_exists(root + "/etc/nccl.conf"))
        places.system_file = root + "/etc/nccl.conf";
    const EnvironmentMap settings = settings_of_user(spec, environment);
    saved.site.conf = read_conf(spec, settings, places);
    if (!root.empty())  // else nobody has the machine's files
        check_topology_file(settings, saved.site.conf, topology, root, saved.site);
    if (spec.nccl.profile == "auto" && topology.identity.empty() && !profile && spec.nccl.manage)
        saved.notes.push_back(
            fmt::format("{} does not say what machine it is of: no profile is taken, name one as "
                        "nccl.profile if there "
                        "is one for it",
                        topology.source));
    if (!profile)
        return saved;
    const auto& paths = profile->topology_files.paths;
    saved.site.profile = to_nccl_profile(
        *profile, topology, root.empty() ? "" : fitting_topology_file(paths, topology, root));
    if (root.empty() && !paths.empty())
        saved.notes.push_back(
            fmt::format("whether the machine has {} is not known: NCCL_TOPO_FILE is left out",
                        join(paths, " or ")));
    return saved;
}

}  // namespace autolaunch::launcher
