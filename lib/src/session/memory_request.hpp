#pragma once
#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "session/session_protocol.hpp"

#include <autolaunch/export.hpp>

#include <cstdint>
#include <filesystem>

namespace autolaunch::session {

struct GrantedMemory {
    UniqueFd file;  ///< empty: nothing is there
    std::uint64_t bytes = 0;
};

/// Asks this node's agent for the memory of a slot, on a connection of its own
/// (docs/memory-checkpoints.md). Blocks: until the deadline. Throws Error: unsupported, with the
/// agent's words, when it refuses or knows no such request; closed, timeout.
AUTOLAUNCH_API GrantedMemory ask_for_memory(const std::filesystem::path& socket, const Hello& hello,
                                            const MemoryAsked& asked, Deadline deadline);

}  // namespace autolaunch::session
