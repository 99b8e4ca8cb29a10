#pragma once
#include <sys/types.h>

namespace autolaunch::launcher {

/// Whether this process may raise the priority of its children again once it has lowered it
/// (CAP_SYS_NICE, or RLIMIT_NICE).
bool can_raise_priority();

/// Lowest, for the process and all that it makes from now on: nice 19. For one that has just been
/// started.
void lower_priority(pid_t process);

/// As this process's own again, for every thread. Only where can_raise_priority().
void restore_priority(pid_t process);

}  // namespace autolaunch::launcher
