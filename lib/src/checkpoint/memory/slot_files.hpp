#pragma once
#include "base/unique_fd.hpp"
#include "session/session_protocol.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace autolaunch::memory {

struct SlotFile {
    UniqueFd file;  ///< empty: there is none
    std::uint64_t bytes = 0;
};

/// Where the memory files of a node's slots come from. Threads: one.
class SlotFiles {
public:
    virtual ~SlotFiles() = default;
    /// The file of a slot. bytes > 0: to write so many, maybe a new one with zeros; 0: what is
    /// there. Throws Error.
    virtual SlotFile open(int shard, int slot, std::uint64_t bytes) = 0;
    /// They are still there after this process.
    virtual bool outlive_us() const = 0;
};

/// The agent's, which keeps them for the job's lifetime. `group` keeps several checkpointers'
/// apart.
std::unique_ptr<SlotFiles> make_agent_slot_files(std::filesystem::path socket, session::Hello hello,
                                                 std::string group);
/// This process's own, shared by all that are made with the same group.
std::unique_ptr<SlotFiles> make_process_slot_files(std::string group);

}  // namespace autolaunch::memory
