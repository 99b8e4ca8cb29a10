#include "spawn/keeper.hpp"

#include "base/deadline.hpp"
#include "base/text.hpp"
#include "spawn/process_tree.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>
#include <system_error>

namespace autolaunch::launcher {

namespace {

// Ours alone: the kernel sends it when the keeper's parent ends, or only the thread of it that
// started us.
const int kParentGone = SIGRTMAX;

constexpr auto kEndingTimeout = std::chrono::seconds(10);

// All but job control, which stops the keeper and with it the shell's job while the training goes
// on, and faults.
sigset_t forwarded_signals() {
    sigset_t signals;
    ::sigfillset(&signals);
    for (const int signal : {SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGSEGV, SIGBUS, SIGFPE, SIGILL,
                             SIGABRT, SIGTRAP, SIGSYS})
        ::sigdelset(&signals, signal);
    return signals;
}

int exit_code_of(const siginfo_t& ended) {
    return ended.si_code == CLD_EXITED ? ended.si_status : 128 + ended.si_status;
}

// True once the agent has ended.
bool wait_for_agent(pid_t agent, siginfo_t& ended, int options) {
    for (;;) {
        if (::waitid(P_PID, static_cast<id_t>(agent), &ended, WEXITED | options) == 0)
            return ended.si_pid == agent;
        if (errno != EINTR)
            return true;  // cannot happen: it is our child and nobody else waits for it
    }
}

int lost_code(const KeeperOptions& options) {
    return options.pulse == nullptr ? 0 : options.pulse->code_when_lost();
}

// The next signal; 0 where none came within the interval in which the agent's pulse is looked at.
int next_signal(const sigset_t& signals, const AgentPulse* pulse) {
    if (pulse == nullptr)
        return ::sigwaitinfo(&signals, nullptr);
    const timespec time{0, std::chrono::nanoseconds(PulseWatch::kInterval).count()};
    return std::max(::sigtimedwait(&signals, nullptr, &time), 0);
}

// An agent that does not move is killed, and at once all that it has started: it may hang in the
// kernel, where no signal ends it.
void end_silent_agent(pid_t agent, const KeeperOptions& options) {
    ::kill(agent, SIGKILL);
    kill_tree(agent);
    std::fprintf(stderr,
                 "autolaunch: its %s (pid %d) has not moved for %.0f s (is it stopped, or a file "
                 "system dead?): it and its ranks are killed, for the other nodes have given this "
                 "one up\n",
                 options.role, agent, static_cast<double>(options.pulse->limit().count()) / 1000);
    std::fflush(stderr);
}

// Fences an agent that is silent. True when it has outlived that, too.
class Fence {
public:
    explicit Fence(const KeeperOptions& options) : options_(options) {
        if (options.pulse != nullptr)
            watch_.emplace(*options.pulse);
    }

    bool failed(pid_t agent) {
        if (!watch_)
            return false;
        if (fenced_)
            return fenced_->passed();
        if (watch_->is_silent(PulseWatch::Clock::now())) {
            end_silent_agent(agent, options_);
            fenced_ = Deadline::after(kEndingTimeout);
        }
        return false;
    }

private:
    const KeeperOptions& options_;
    std::optional<PulseWatch> watch_;
    std::optional<Deadline> fenced_;
};

// A parent that was gone before the request never triggers it.
void follow_parent(pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, kParentGone);
    if (::getppid() != parent)
        ::raise(kParentGone);
}

[[noreturn]] void keep(pid_t agent, pid_t parent, const sigset_t& signals,
                       const KeeperOptions& options) {
    ::prctl(PR_SET_NAME, "autolaunch-keep");
    if (options.end_with_parent)
        follow_parent(parent);
    siginfo_t ended{};
    Fence fence(options);
    while (!wait_for_agent(agent, ended, WNOHANG)) {
        if (fence.failed(agent))
            ::_exit(lost_code(options));
        int signal = next_signal(signals, options.pulse);
        if (signal == kParentGone && options.end_with_parent) {
            signal = ::getppid() == parent ? 0 : SIGTERM;
            if (signal != 0 && options.pulse != nullptr)
                options.pulse->tell_parent_is_gone();
        }
        if (signal > 0 && signal != SIGCHLD)
            ::kill(agent, signal);
    }
    const bool all_ended = end_children({}, Deadline::after(kEndingTimeout));
    if (ended.si_code != CLD_EXITED) {
        std::error_code ignored;
        std::filesystem::remove_all(options.scratch, ignored);
        std::fprintf(stderr, "autolaunch: its %s (pid %d) was killed by %s; %s\n", options.role,
                     agent, signal_name(ended.si_status).c_str(),
                     all_ended ? "all that it had started was ended" : "some processes do not end");
    }
    std::fflush(stderr);
    const bool was_killed = ended.si_code != CLD_EXITED;
    ::_exit(was_killed && lost_code(options) != 0 ? lost_code(options) : exit_code_of(ended));
}

// A standard stream that our parent closed must not become a pipe or a log file of ours.
void fill_standard_streams() {
    int fd = 0;
    do {
        fd = ::open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= 2);
    if (fd > 2)
        ::close(fd);
}

}  // namespace

UniqueFd start_keeper(const KeeperOptions& options) {
    fill_standard_streams();
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        throw SystemError(errno, "open a pipe");
    UniqueFd keeper_gone(ends[0]);
    UniqueFd kept_open(ends[1]);
    const pid_t parent = ::getppid();
    adopt_orphans();  // not inherited: the agent asks for itself
    std::fflush(nullptr);

    const sigset_t signals = forwarded_signals();
    sigset_t before;
    ::sigprocmask(SIG_BLOCK, &signals, &before);
    const pid_t pid = ::fork();
    if (pid < 0) {
        const int error = errno;
        ::sigprocmask(SIG_SETMASK, &before, nullptr);
        throw SystemError(error, "start the agent",
                          "the limit on processes may be reached: see ulimit -u");
    }
    if (pid > 0) {
        keeper_gone.reset();
        keep(pid, parent, signals, options);
    }
    kept_open.reset();
    // Away from the terminal's foreground group: Ctrl-C reaches us once, through the keeper.
    // Writing must stay allowed.
    ::setpgid(0, 0);
    ::signal(SIGTTOU, SIG_IGN);
    adopt_orphans();
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return keeper_gone;
}

}  // namespace autolaunch::launcher
