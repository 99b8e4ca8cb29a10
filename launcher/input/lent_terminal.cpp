#include "input/lent_terminal.hpp"

#include "base/file_io.hpp"

#include <autolaunch/error.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

// By then a keeper that was told to stop has stopped.
constexpr auto kStopTime = std::chrono::milliseconds(200);

bool is_stopped(pid_t pid) {
    try {
        const std::string status = read_file("/proc/" + std::to_string(pid) + "/stat");
        const auto name_end = status.rfind(')');
        return name_end != std::string::npos && status.compare(name_end, 3, ") T") == 0;
    } catch (const Error&) {
        return false;  // it is gone
    }
}

}  // namespace

LentTerminal::LentTerminal(asio::io_context& io, int terminal, ShellJob shell)
    : terminal_(terminal), shell_(shell), timer_(io) {
    if (termios modes{}; ::tcgetattr(terminal, &modes) == 0)
        modes_ = modes;
}

void LentTerminal::return_to_shell() {
    if (!std::exchange(is_lent_, false))
        return;
    ::tcsetpgrp(terminal_, shell_.group);
    if (modes_)
        ::tcsetattr(terminal_, TCSADRAIN, &*modes_);
}

bool LentTerminal::in_foreground() const {
    return shell_.group > 0 && ::tcgetpgrp(terminal_) == shell_.group;
}

// The group may have read before it was in the foreground, and was stopped for it.
void LentTerminal::lend(pid_t group) {
    group_ = group;
    if (!in_foreground())
        return;
    is_lent_ = ::tcsetpgrp(terminal_, group) == 0;
    ::kill(-group, SIGCONT);
}

// A debugger may have passed it on to a group that is gone with it. A shell that has taken it
// meanwhile keeps it.
void LentTerminal::take_back() {
    timer_.cancel();
    const pid_t owner = ::tcgetpgrp(terminal_);
    const bool is_ours = owner == group_ || (owner > 0 && ::kill(-owner, 0) != 0);
    if (is_ours)
        return_to_shell();
    is_lent_ = false;
    group_ = -1;
}

void LentTerminal::see_stop() {
    siginfo_t info{};
    if (group_ <= 0 || shell_.group <= 0 ||
        ::waitid(P_PID, static_cast<id_t>(group_), &info, WSTOPPED | WNOHANG) != 0 ||
        info.si_pid != group_)
        return;
    return_to_shell();
    ::kill(-shell_.group, SIGTSTP);
    timer_.expires_after(kStopTime);
    timer_.async_wait([this](const std::error_code& error) {
        if (!error)
            go_on_if_alone();
    });
}

// Without a shell that has job control nobody would ever continue it, and the kernel stops no
// keeper there.
void LentTerminal::go_on_if_alone() {
    if (group_ > 0 && !is_stopped(shell_.keeper))
        lend(group_);
}

void LentTerminal::go_on() {
    if (group_ <= 0)
        return;
    if (in_foreground())
        return lend(group_);
    ::kill(-group_, SIGCONT);
}

}  // namespace autolaunch::launcher
