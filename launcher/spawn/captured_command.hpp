#pragma once
#include "base/deadline.hpp"
#include "base/unique_fd.hpp"

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// A command without a shell, with all of its process group: what it is told on stdin, what it
/// prints, and how it ends. It leaves no core file, has default signals, and dies with us; looked
/// for in PATH. It is over with the program's own end, whatever it has left running, and all of
/// that is killed.
///
/// Owner: who asks. Threads: none beside it (it forks). Blocks: wait(); the destructor a second at
/// most, for one that hangs in the kernel.
class CapturedCommand {
public:
    /// `most` bytes of what it prints are taken; more ends it. Throws SystemError where there are
    /// no processes or descriptors left.
    CapturedCommand(const std::vector<std::string>& argv, std::string_view input, std::size_t most);
    CapturedCommand(const CapturedCommand&) = delete;
    CapturedCommand& operator=(const CapturedCommand&) = delete;
    ~CapturedCommand();

    /// Whether it has ended, and printed no more than it may.
    bool wait(const Deadline& deadline);
    /// Of waitpid(), once it has ended.
    int status() const { return status_; }
    std::string& printed() { return printed_; }
    bool printed_too_much() const { return printed_.size() > most_; }
    /// ": " and the last line of what it said on stderr; or nothing.
    std::string complaint() const;
    /// errno of its execution; 0: it ran.
    int not_executed() const;

private:
    struct Pipe {
        UniqueFd reading, writing;
    };
    static Pipe make_pipe();
    bool read_all();
    static bool read_some(const UniqueFd& from, std::string& to, std::size_t most, bool keep_last);

    std::size_t most_;
    pid_t pid_ = -1;
    int status_ = 0;
    Pipe out_, err_, report_;
    std::string printed_, complained_;
};

}  // namespace autolaunch::launcher
