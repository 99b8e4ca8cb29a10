#pragma once
#include "progress/rank_activity.hpp"

#include <sys/types.h>

#include <string>

namespace autolaunch::launcher {

/// What a process and all its descendants have used so far. What cannot be read counts as nothing.
ActivityLook look_at_tree(pid_t pid);

/// The letter of /proc/PID/stat: R, S, D, T, t, Z; 0: the process is gone.
char state_of(pid_t pid);

/// What a process does that does not go on, by its main thread's system call; it goes on after
/// "rank 3 ": "reads /data/7.bin", "sleeps", "waits for its child python (pid 99), which sleeps".
/// Empty: that may not be read, or says nothing.
std::string describe_standing(pid_t pid);

/// The child that seems to hold up a process which waits for what its children send: "waits for its
/// child python (pid 99), which reads /data/7.bin". One that waits itself, for input or a lock,
/// holds up nobody. Empty: there is none.
std::string describe_busy_child(pid_t pid);

/// "pid 99 python: S, waits for input, in ep_poll"; empty: it is gone.
std::string describe_thread(pid_t pid, pid_t thread);

}  // namespace autolaunch::launcher
