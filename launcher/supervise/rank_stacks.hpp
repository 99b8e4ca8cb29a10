#pragma once
#include "allocation/slurm_command.hpp"
#include "supervise/command_wait.hpp"
#include "supervise/python_stacks.hpp"

#include <sys/types.h>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <cstddef>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// Where each thread of a process is: its state, its system call and the kernel's function, by
/// /proc, a line each. Empty: the process is gone.
std::string thread_table(pid_t pid);

/// Writes down where the threads of ranks are: thread_table(), and their native stacks by eu-stack
/// or gdb, where one is installed; of Python ranks that import our module their Python stacks, too,
/// which they write themselves on a signal. One rank after the other, 12 s each at most.
///
/// Owner: StandstillWatch. Threads: the agent's one. Blocks: on the file system, where it writes.
class RankStacks {
public:
    struct Written {
        int rank = 0;
        std::string path;     ///< empty: it could not be written
        std::string problem;  ///< why something is missing; else empty
    };

    /// All must outlive it.
    RankStacks(asio::io_context& io, std::filesystem::path run_dir, PythonStacks& python,
               std::function<void(const Written&)> written);

    void write(int generation, int rank, pid_t pid);
    /// Our own debugger may be at it.
    bool looks_at(int rank) const {
        return debugger_ && !wanted_.empty() && wanted_.front().rank == rank;
    }
    /// What is not written yet never is.
    void stop();

private:
    struct Wanted {
        int generation = 0, rank = 0;
        pid_t pid = 0;
    };

    void begin();
    void await_python(int rank, std::size_t seen, int looks);
    void begin_native();
    void end(bool answered);

    const std::filesystem::path run_dir_;
    const std::function<void(const Written&)> written_;
    std::deque<Wanted> wanted_;  ///< the first is under way
    std::optional<SlurmCommand> debugger_;
    CommandWait wait_;
    asio::steady_timer python_timer_;
    PythonStacks& python_;
    std::string python_stacks_;  ///< of the first of wanted_
};

}  // namespace autolaunch::launcher
