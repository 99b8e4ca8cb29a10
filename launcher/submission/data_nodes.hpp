#pragma once
#include "spec/storage_spec.hpp"

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// Which nodes have the job's data since an earlier one: a hint for Slurm's choice, no more. What
// was removed there since is copied again.

/// Nodes on which a run had all that is to be staged, from the same sources: by its plan.json, and
/// the events of each node, which are asked for by its rank. None for text that makes no sense.
std::vector<std::string> nodes_with_data(std::string_view plan,
                                         const std::function<std::string(int node)>& events,
                                         const StorageSpec& storage);
/// The same of the newest runs of a folder, each node once. Blocks: while it reads some files.
std::vector<std::string> nodes_with_data(const std::filesystem::path& runs,
                                         const StorageSpec& storage);

/// sinfo, for the features of nodes. Pure.
std::vector<std::string> features_question(const std::vector<std::string>& nodes);
/// For --prefer, from what that answered: "node1|node2", where each of them has a feature that is
/// its name, and is of a Slurm that knows the option (22.05). Empty: it cannot be said so. Pure.
std::string preferred_features(const std::vector<std::string>& nodes, std::string_view answer,
                               const std::string& slurm_version);

}  // namespace autolaunch::launcher
