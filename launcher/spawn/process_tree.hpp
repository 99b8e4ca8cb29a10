#pragma once
#include "base/deadline.hpp"

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Asks the kernel to hand us every descendant whose parent is gone, however it detached itself
/// (setsid, double fork).
void adopt_orphans();

/// The parent of any process, by its "stat" below `proc_root`. 0: there is none, or the process is
/// gone.
pid_t parent_of(pid_t process, const std::string& proc_root = "/proc");

/// The direct children of this process, zombies included.
std::vector<pid_t> list_children();

/// The same of another process.
std::vector<pid_t> list_children(pid_t parent);

/// Ends with SIGKILL, and reaps, every child that is not in `except`; children of theirs, which we
/// adopt as they are orphaned, too. False when some were still there at the deadline
/// (uninterruptible, in the kernel). Blocks until then.
bool end_children(const std::vector<pid_t>& except, Deadline deadline);

/// Names ("sleep (pid 12)") of our children of that kind that run and do not just end by themselves
/// with the program that started them, as Python's helper processes do.
std::vector<std::string> running_children(const std::function<bool(pid_t)>& of_that_kind);

/// A process that is not ours to reap, and all its descendants.
std::vector<pid_t> list_tree(pid_t pid);

/// SIGKILL to all descendants of a process that is not ours to reap, as long as they are its. Waits
/// for nothing.
void kill_tree(pid_t pid);

/// Reaps what has ended and is not in `except`; kills nothing and waits for nothing.
void reap_orphans(const std::vector<pid_t>& except);

}  // namespace autolaunch::launcher
