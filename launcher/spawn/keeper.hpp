#pragma once
#include "base/unique_fd.hpp"
#include "spawn/agent_pulse.hpp"

#include <filesystem>
#include <functional>

namespace autolaunch::launcher {

struct KeeperOptions {
    /// A folder of the agent's, to be removed when it was killed; empty: none.
    std::filesystem::path scratch = {};
    int lock = -1;  ///< a descriptor that holds its lock, for the guardian to keep; -1: none
    /// Our parent is a scheduler's, which waits for us: when it is gone, the agent gets SIGTERM.
    bool end_with_parent = false;
    const char* role = "agent";  ///< in messages: what is kept
    /// A third process, between keeper and agent, ends last, and bears another name. Without it the
    /// keeper bears that name.
    bool guardian = false;
    std::function<void()> meanwhile = {};  ///< the keeper's first work, while the agent starts
    /// The keeper's last work, when all that it kept has ended, where the agent asked for it.
    std::function<void()> parting = {};
    /// The same where the agent was killed and had said that it leaves more than processes.
    std::function<void()> bereaved = {};
    /// By which the agent shows that it runs; one that does not, although it promised to, is
    /// killed.
    AgentPulse* pulse = nullptr;
};

/// A standard stream that our parent closed becomes /dev/null, and not the next file that we open.
/// start_keeper() does it, too; whoever opens a file before it calls it first.
void fill_standard_streams();

/// Splits this process in two or three, so that no end of autolaunch, SIGKILL included, leaves a
/// process of the job behind (docs/adr/0004-process-model.md).
///
/// The process that the caller's parent knows becomes the keeper: it passes every signal on to the
/// agent, waits, ends whatever the agent left, and exits with the agent's exit code (128 + N when
/// signal N killed it). It never returns from here. The call returns in the agent, which leads a
/// process group of its own; the descriptor becomes readable when the keeper is gone, and the agent
/// must then end its children. The guardian (guardian.hpp) ends what is left when both are killed.
///
/// Threads: call it before any other thread or descriptor that must not be shared exists. Throws
/// SystemError.
UniqueFd start_keeper(const KeeperOptions& options);

}  // namespace autolaunch::launcher
