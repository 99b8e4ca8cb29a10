#pragma once
#include <autolaunch/export.hpp>

#include <sys/types.h>

#include <optional>
#include <vector>

namespace autolaunch {

/// The CPUs that the kernel lets a thread run on, sorted; 0 is the calling one. Nothing, and errno,
/// when it is gone.
AUTOLAUNCH_API std::optional<std::vector<int>> affinity_of(pid_t thread);

}  // namespace autolaunch
