#pragma once
#include <sys/types.h>

namespace autolaunch::launcher {

// The process between keeper and agent that ends last (docs/adr/0004-process-model.md). Its code
// needs the C library alone, as it also runs as a small program of its own.

/// What it watches, and what it keeps.
struct GuardOrder {
    pid_t keeper = -1;
    pid_t agent = -1;           ///< its child
    const char* scratch = "";   ///< a folder of the agent's, to be removed when it was killed
    int lock = -1;              ///< held open as long as we live; -1: none
    bool in_own_image = false;  ///< it is that program already
};

/// Waits for the agent's end, which it leaves for the keeper to reap, ends with SIGKILL all that
/// the agent has left, and exits: with 0 when all of it ended. Neither its name, nor its command
/// line, nor, once the job has run for a moment, its program (/proc/PID/exe) is autolaunch's: what
/// kills all processes of such a name leaves it.
[[noreturn]] void guard(const GuardOrder& order);

/// Gives this process the name and the command line of a guardian of `of`.
void disguise_as_guardian(pid_t of);

/// Removes the folder, and those of this user that bear its name in /dev/shm and /tmp, alone or
/// with more behind it.
void remove_scratch(const char* path);

}  // namespace autolaunch::launcher
