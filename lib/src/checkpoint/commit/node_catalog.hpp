#pragma once
#include "checkpoint/commit/usable.hpp"
#include "checkpoint/storage/storage.hpp"

#include <autolaunch/checkpoint/manifest.hpp>
#include <autolaunch/comm/communicator.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace autolaunch {

// Checkpoints of which each node holds its own ranks' files, in a directory of its own. Everything
// here is collective, and what is returned is the same on every rank.

/// Of each rank the lowest rank that sees the same directory: its leader, which does there what one
/// must do. By a file of each rank with a name that nobody looked for before, so that no cache
/// answers. Makes the directories.
std::vector<int> leaders_of_directories(Communicator& world, Storage& storage,
                                        const std::filesystem::path& directory);

/// A checkpoint that some nodes have published.
struct NodeCheckpoint {
    std::string name;
    std::int64_t step = 0;
    std::uint64_t manifest_hash = 0;  ///< of the manifest's text; 0: it cannot be read
    std::size_t file_count = 0;
    std::optional<double> metric = {};
    std::map<int, std::set<std::size_t>> files = {};  ///< by leader: what is there with its size
    /// What leaders say of what is there and cannot be used.
    std::vector<UnusableCheckpoint> problems = {};

    /// Every file is on one of the nodes.
    bool complete() const;
    /// The lowest leader that has a file; nothing when nobody has.
    std::optional<int> owner_of(std::size_t file_index) const;
    /// Of one that is not complete. What is nowhere counts as never published: it was not
    /// announced, and may have been on a node that is lost.
    std::vector<UnusableCheckpoint> why_not_complete() const;
};

/// What the leaders' directories have, of this step or of all. Newest first, and complete ones of a
/// step first. Throws on every rank where one of the directories cannot be listed.
std::vector<NodeCheckpoint> survey_nodes(Communicator& world, Storage& storage,
                                         const std::filesystem::path& directory,
                                         const std::vector<int>& leaders,
                                         std::optional<std::int64_t> step = {});

}  // namespace autolaunch
