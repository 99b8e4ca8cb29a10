#pragma once
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <sys/types.h>
#include <termios.h>

#include <optional>

namespace autolaunch::launcher {

/// Who started autolaunch, as a shell sees it: the keeper, and its process group.
struct ShellJob {
    pid_t keeper = -1;
    pid_t group = -1;
};

/// The terminal in whose foreground autolaunch runs, while one rank has it. Each rank is in a
/// process group of its own: only the one in the foreground may read and gets Ctrl-C.
///
/// A rank that is stopped by Ctrl-Z, or reads in the background, stops autolaunch's keeper, too, as
/// the shell's job; the shell's fg continues both.
///
/// Owner: JobInput. Threads: the agent's one, where SIGTTOU is ignored. Blocks: never.
class LentTerminal {
public:
    /// `terminal` stays the caller's.
    LentTerminal(asio::io_context& io, int terminal, ShellJob shell);
    ~LentTerminal() { take_back(); }

    /// To that process group, where the shell has us in the foreground.
    void lend(pid_t group);
    void take_back();
    /// SIGCHLD came.
    void see_stop();
    /// SIGCONT came: the shell's fg or bg.
    void go_on();

private:
    bool in_foreground() const;
    void return_to_shell();
    void go_on_if_alone();

    const int terminal_;
    const ShellJob shell_;
    asio::steady_timer timer_;
    pid_t group_ = -1;  ///< who is to have it; -1: nobody
    bool is_lent_ = false;
    std::optional<termios> modes_;  ///< as they were, for a debugger may leave others
};

}  // namespace autolaunch::launcher
