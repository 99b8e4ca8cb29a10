#pragma once
#include "stage_out/finish_left.hpp"

#include <functional>
#include <string>

namespace autolaunch::launcher {

/// finish_left() in a process of its own, which nobody waits for where a target's file system does
/// not answer: not even SIGKILL ends who hangs in the kernel. Throws ExitError where it has, or was
/// ended; else its exit code. Blocks: until it says that it is over.
int finish_beside(const FinishRequest& request,
                  const std::function<void(const std::string&)>& print);

}  // namespace autolaunch::launcher
