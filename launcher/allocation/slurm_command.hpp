#pragma once
#include "base/deadline.hpp"
#include "base/unique_fd.hpp"

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// One of Slurm's commands (squeue, scontrol), beside whatever else is done, and what it prints.
///
/// Not libslurm: it ends the process that calls it when its configuration cannot be read, and
/// retries for minutes.
///
/// The command ends with the object. Somebody else may end or reap it, as with all children of this
/// process: then it is over early, and what was not answered to the end is no answer.
///
/// Owner: who asks. Threads: its owner's. Blocks: wait(); otherwise a second at most, for a command
/// that hangs in the kernel.
class SlurmCommand {
public:
    /// What it prints to stderr. take: it is part of the answer. apart: errors() has it, and
    /// exit_code() its code.
    enum class Errors { ignore, take, apart };

    /// argv[0] is looked for in PATH. Where it cannot be started, it is over at once.
    explicit SlurmCommand(std::vector<std::string> argv, Errors errors = Errors::ignore);
    SlurmCommand(const SlurmCommand&) = delete;
    SlurmCommand& operator=(const SlurmCommand&) = delete;
    ~SlurmCommand();

    /// The processes of all commands that are not over: who ends the children of this process
    /// spares them. Any thread.
    static std::vector<pid_t> under_way();

    /// Readable when advance() has something to do; -1 when it is over.
    int fd() const { return answer_fd_.get(); }
    /// Takes what has come; true when it is over.
    bool advance();
    /// Advances until it is over; gives up at the deadline. The answer.
    std::string wait(const Deadline& deadline);
    /// All that it printed; empty: no answer, or not all of it.
    std::string answer() const;
    /// The whole lines of what it has printed so far.
    std::string so_far() const;
    /// With Errors::apart, once it is over.
    const std::string& errors() const { return errors_; }
    /// The same. Nothing: it did not start, or did not end by itself.
    std::optional<int> exit_code() const { return exit_code_; }

private:
    void end() noexcept;
    void take_errors() noexcept;

    UniqueFd process_;  // a pidfd
    pid_t pid_ = -1;
    UniqueFd answer_fd_;
    std::string answer_;
    UniqueFd errors_fd_;
    std::string errors_;
    bool errors_apart_ = false;
    bool said_all_ = false;  // it has closed its stdout
    std::optional<int> exit_code_;
};

}  // namespace autolaunch::launcher
