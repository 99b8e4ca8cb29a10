#pragma once
// A child that is killed at one of its system calls.
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <random>
#include <string_view>
#include <vector>

namespace autolaunch::testing {

/// Lets the child go on to its system call number `fatal` (enters and exits are counted, of all its
/// threads) and kills it there. Returns how many it came to.
inline int run_until(pid_t child, int fatal) {
    int status = 0;
    if (::waitpid(child, &status, 0) != child)
        return -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        return -77;
    const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
    ::ptrace(PTRACE_SETOPTIONS, child, nullptr, reinterpret_cast<void*>(options));
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    int calls = 0;
    for (;;) {
        const pid_t thread = ::waitpid(-1, &status, __WALL);
        if (thread < 0)
            return errno == ECHILD ? calls : -1;
        if (!WIFSTOPPED(status)) {
            if (thread == child)
                return calls;
            continue;  // another thread ended
        }
        const bool is_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
        if (is_call && ++calls == fatal) {
            ::kill(child, SIGKILL);
            continue;
        }
        // Threads start with a SIGSTOP of the tracer's, and events are SIGTRAPs: neither is for the
        // child.
        const int signal = is_call || WSTOPSIG(status) == SIGSTOP || WSTOPSIG(status) == SIGTRAP
                               ? 0
                               : WSTOPSIG(status);
        ::ptrace(PTRACE_SYSCALL, thread, nullptr,
                 reinterpret_cast<void*>(static_cast<long>(signal)));
    }
}

/// Runs `act` in a child that is killed at its system call number `fatal`; 0: at none. Returns how
/// many it came to; -77: no process can be traced here.
template <class Act>
int run_killed(int fatal, const Act& act) {
    const pid_t child = ::fork();
    if (child == 0) {
        if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0)
            ::_exit(77);
        ::raise(SIGSTOP);
        act();
        ::_exit(0);
    }
    return run_until(child, fatal);
}

/// Where a child is killed that comes to so many: at one of `stride` calls, in each run of a test
/// at others; at each with AUTOLAUNCH_SLOW_TESTS=1.
inline std::vector<int> fatal_calls(int calls, int stride) {
    const char* slow = std::getenv("AUTOLAUNCH_SLOW_TESTS");
    if (slow != nullptr && std::string_view(slow) == "1")
        stride = 1;
    std::vector<int> fatal;
    for (int at = 1 + static_cast<int>(std::random_device()() % stride); at <= calls; at += stride)
        fatal.push_back(at);
    return fatal;
}

}  // namespace autolaunch::testing
