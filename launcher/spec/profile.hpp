#pragma once
#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A profile: NCCL settings of one kind of cluster, as its file says them (configs/profiles,
/// docs/nccl.md). Every value has its reason and its source, or the file is refused.
struct ProfileFile {
    struct Variable {
        std::string name, value, reason, source;
    };
    /// A topology file for NCCL_TOPO_FILE; the first that is there and fits the machine is taken.
    struct TopologyFiles {
        std::vector<std::string> paths;
        std::string reason, source;
    };
    std::string name;  ///< the file's name without .yaml
    std::string path;
    std::string description;
    /// What a machine of this kind says of itself: /sys/class/dmi/id's file -> text. All must be
    /// equal. Empty: the profile is chosen by name only.
    std::map<std::string, std::string> match;
    std::vector<Variable> set;
    std::vector<Variable> set_with_roce;  ///< only where the compute HCAs are RoCE
    std::vector<Variable> leave;          ///< somebody else sets these; no value
    TopologyFiles topology_files;
    std::vector<std::string> notes;  ///< for jobs of several nodes in which none of `leave` is set
};

/// Reads one file. Throws Error{invalid_argument} naming file, line and key: all that is wrong, at
/// once; and SystemError if it cannot be read.
ProfileFile read_profile(const std::string& path);

/// Names of the profiles in a folder, sorted; empty if there is no such folder. Throws SystemError
/// if it cannot be read.
std::vector<std::string> profile_names(const std::string& folder);

/// By name, or by path where `word` has a slash. Throws Error{invalid_argument} for a name and
/// SystemError{ENOENT} for a path that leads nowhere, with a list of the profiles there are; and
/// what read_profile() throws.
ProfileFile find_profile(const std::string& word, const std::string& folder);

}  // namespace autolaunch::launcher
