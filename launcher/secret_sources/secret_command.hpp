#pragma once
#include "base/deadline.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What a command prints, which has a secret: without a shell, with /dev/null as its stdin, looked
/// for in PATH. It is over with the program's own end, whatever it has left running. Throws
/// ExitError 69: it is not there, it ended badly (what it said on stderr is told, and never what it
/// printed), it took too long; 65: it printed nothing, or more than 1 MiB. All that it started in
/// its process group is killed then.
///
/// `what` begins the message. Threads: none beside it (it forks). Blocks: until the deadline.
std::string read_secret_of_command(const std::string& what, const std::vector<std::string>& argv,
                                   const Deadline& deadline);

}  // namespace autolaunch::launcher
