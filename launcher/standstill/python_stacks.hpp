#pragma once
#include "base/unique_fd.hpp"
#include "session/session_protocol.hpp"

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>

namespace autolaunch::launcher {

/// Asks Python ranks where their threads are: on a signal that they have named, Python writes it
/// into memory that it has given to us (docs/session-protocol.md).
///
/// Owner: StandstillWatch. Threads: the agent's one. Blocks: never.
class PythonStacks {
public:
    /// `pid` is 0 where it cannot be seen.
    void can_tell(int rank, pid_t pid, const session::PythonStacks& stacks);
    void forget() { ranks_.clear(); }
    /// Empties the memory and sends the signal. False: this rank cannot tell.
    bool ask(int rank);
    /// So many bytes it has written since.
    std::size_t written(int rank) const;
    /// At most 1 MiB of them.
    std::string read(int rank) const;

private:
    struct Process {
        pid_t pid = 0;
        UniqueFd process;  ///< its pidfd
        int signal = 0;
        std::shared_ptr<UniqueFd> file;
    };

    std::map<int, Process> ranks_;
};

}  // namespace autolaunch::launcher
