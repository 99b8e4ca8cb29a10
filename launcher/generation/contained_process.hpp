#pragma once
#include "spawn/spawn.hpp"

#include <sys/types.h>

#include <string>
#include <utility>

namespace autolaunch::launcher {

/// A program in a container whose runtime starts it beside itself: podman's is a child of conmon,
/// and leads a session of its own. The runtime writes its pid to a file.
///
/// Owner: RankProcess. Threads: the agent's one. Blocks: no.
class ContainedProcess {
public:
    explicit ContainedProcess(std::string pid_file) : pid_file_(std::move(pid_file)) {}

    /// -1: it is not there yet, or not any more. The number alone is no proof: it may be another's
    /// by now, who has not conmon, or one of us, for a parent.
    pid_t pid() const;
    /// False where there is none.
    bool signal_group(int signal) const;

private:
    std::string pid_file_;
};

/// podman exits with 128 + N where signal N has ended the program, which is then what happened to
/// the rank. (A program that exits with such a number by itself cannot be told from it; shells do,
/// for what a signal has ended below them.) Pure.
ChildEnd end_in_container(ChildEnd end);

}  // namespace autolaunch::launcher
