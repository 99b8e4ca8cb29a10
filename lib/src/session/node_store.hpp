#pragma once
#include "base/owned_folder.hpp"

#include <autolaunch/store.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

namespace autolaunch::session {

/// How the ranks of one node find the store that rank 0 serves on a free port, when no launcher
/// tells them: a 0600 file in a 0700 directory of this user, named by the job. It holds the port
/// and a random word; the store holds the same word, so a file that an earlier job left behind
/// leads nobody astray.
///
/// Owner: Session. Threads: one. Blocks: find(), until its deadline.
class NodeStoreFile {
public:
    /// `job` must be equal for the ranks of a job on this node and different for other jobs. Makes
    /// the directory.
    explicit NodeStoreFile(const std::string& job);
    /// In a folder of this user's in `base`, which may be everybody's. Throws Error where another
    /// user has put something in its place.
    NodeStoreFile(const std::string& job, const std::filesystem::path& base);

    /// Puts the word into the store and then the file in place. `own` is connected to the store at
    /// `port`.
    void publish(std::uint16_t port, Store& own) const;
    /// Connects to what is published, waiting for it. Throws TimeoutError.
    Store find(const std::string& prefix, std::chrono::milliseconds timeout) const;
    /// Removes the file: everybody has found it.
    void remove() const noexcept;

private:
    OwnedFolder folder_;
    std::string name_;
};

}  // namespace autolaunch::session
