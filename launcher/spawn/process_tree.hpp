#pragma once
#include "base/deadline.hpp"

#include <sys/types.h>

#include <vector>

namespace autolaunch::launcher {

/// Asks the kernel to hand us every descendant whose parent is gone, however it detached itself
/// (setsid, double fork).
void adopt_orphans();

/// The direct children of this process, zombies included.
std::vector<pid_t> list_children();

/// Ends with SIGKILL, and reaps, every child that is not in `except`; children of theirs, which we
/// adopt as they are orphaned, too. False when some were still there at the deadline
/// (uninterruptible, in the kernel). Blocks until then.
bool end_children(const std::vector<pid_t>& except, Deadline deadline);

/// SIGKILL to all descendants of a process that is not ours to reap, as long as they are its. Waits
/// for nothing.
void kill_tree(pid_t pid);

/// Reaps what has ended and is not in `except`; kills nothing and waits for nothing.
void reap_orphans(const std::vector<pid_t>& except);

}  // namespace autolaunch::launcher
