#pragma once
#include "allocation/slurm_command.hpp"
#include "base/deadline.hpp"
#include "spawn/command_wait.hpp"
#include "standstill/node_evidence.hpp"
#include "standstill/python_stacks.hpp"

#include <sys/types.h>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
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

/// Of what gdb prints: the stacks with the symbols of all libraries where it came to their end,
/// else those before. Pure.
std::string best_stacks(const std::string& printed, bool is_all);

/// Why a debugger's words hold no stack, by the kernel's kernel.yama.ptrace_scope (0 without Yama);
/// empty: they hold one. Pure.
std::string why_no_stacks(const std::string& printed, bool answered, int ptrace_scope);

/// Writes down where the threads of ranks are: thread_table(), and their native stacks by eu-stack
/// or gdb, where one is installed; of Python ranks that import our module their Python stacks, too,
/// which they write themselves on a signal; before all of it what NodeEvidence has. One rank after
/// the other, in 10 s together.
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
               std::function<NodeEvidence::Ranks()> ranks,
               std::function<void(const Written&)> written);

    void write(int generation, const NodeEvidence::Ranks& ranks);
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
    Deadline until_ = Deadline::after(std::chrono::seconds(0));
    std::optional<SlurmCommand> debugger_;
    CommandWait wait_;
    asio::steady_timer python_timer_;
    PythonStacks& python_;
    std::string python_stacks_;  ///< of the first of wanted_
    NodeEvidence evidence_;
};

}  // namespace autolaunch::launcher
