#pragma once
#include "base/unique_fd.hpp"

#include <filesystem>

namespace autolaunch::launcher {

/// Splits this process in two, so that no end of autolaunch, SIGKILL included, leaves a process of the job behind
/// (docs/adr/0004-process-model.md).
///
/// The process that the caller's parent knows becomes the keeper: it passes every signal on to the agent, waits, ends
/// whatever the agent left, and exits with the agent's exit code (128 + N when signal N killed it). It never returns
/// from here. The call returns in the agent, a child in a process group of its own; the descriptor becomes readable
/// when the keeper is gone, and the agent must then end its children.
///
/// `scratch` is a folder of the agent's that the keeper removes when the agent was killed; it must exist by now.
///
/// Threads: call it before any other thread or descriptor that must not be shared exists. Throws SystemError.
UniqueFd start_keeper(const std::filesystem::path& scratch);

}  // namespace autolaunch::launcher
