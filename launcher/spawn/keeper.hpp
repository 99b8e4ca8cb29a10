#pragma once
#include "base/unique_fd.hpp"
#include "spawn/agent_pulse.hpp"

#include <filesystem>

namespace autolaunch::launcher {

struct KeeperOptions {
    std::filesystem::path
        scratch;  ///< a folder of the agent's, to be removed when it was killed; empty: none
    /// Our parent is a scheduler's, which waits for us: when it is gone, the agent gets SIGTERM.
    bool end_with_parent = false;
    const char* role = "agent";  ///< in messages: what is kept
    /// By which the agent shows that it runs; one that does not, although it promised to, is
    /// killed.
    AgentPulse* pulse = nullptr;
};

/// Splits this process in two, so that no end of autolaunch, SIGKILL included, leaves a process of
/// the job behind (docs/adr/0004-process-model.md).
///
/// The process that the caller's parent knows becomes the keeper: it passes every signal on to the
/// agent, waits, ends whatever the agent left, and exits with the agent's exit code (128 + N when
/// signal N killed it). It never returns from here. The call returns in the agent, a child in a
/// process group of its own; the descriptor becomes readable when the keeper is gone, and the agent
/// must then end its children.
///
/// Threads: call it before any other thread or descriptor that must not be shared exists. Throws
/// SystemError.
UniqueFd start_keeper(const KeeperOptions& options);

}  // namespace autolaunch::launcher
