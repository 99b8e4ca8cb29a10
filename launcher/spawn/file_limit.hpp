#pragma once
#include <sys/resource.h>

#include <optional>

namespace autolaunch::launcher {

/// Raises this process's soft limit on open files to the hard one: the agent needs about four for
/// each rank, and 1024 is a common limit. Returns the soft limit from before, for
/// ChildSpec::file_limit, since programs that use select(2) rely on a low one; nothing when it
/// could not be read.
std::optional<rlim_t> raise_file_limit();

}  // namespace autolaunch::launcher
