#pragma once
// Memory that a transport may still write to after its group was aborted.
#include <memory>

namespace autolaunch {

/// Keeps `memory` until the process ends: MPI cannot withdraw a collective, and what it writes late
/// must not meet memory that somebody else has by then. Threads: any.
void keep_until_exit(std::shared_ptr<void> memory);

}  // namespace autolaunch
