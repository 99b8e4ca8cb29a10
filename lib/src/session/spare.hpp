#pragma once

namespace autolaunch::session {

/// In a process that the agent has started as a spare (docs/recovery.md, AUTOLAUNCH_SPARE): waits
/// until that makes a rank of it, and sets the environment, stdout and stderr to the rank's. Other
/// processes it leaves alone.
///
/// Throws Error: it becomes none. Blocks: without a limit; the agent ends a spare that is not
/// wanted, and the kernel does when the agent ends. Threads: none may read the environment
/// meanwhile.
void become_rank_if_spare();

}  // namespace autolaunch::session
