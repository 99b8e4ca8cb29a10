#include "spawn/keeper.hpp"

#include "base/deadline.hpp"
#include "base/text.hpp"
#include "spawn/guardian.hpp"
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
#include <ctime>
#include <optional>

namespace autolaunch::launcher {

namespace {

// Ours alone: the kernel sends it when the keeper's parent ends, or only the thread of it that
// started us.
const int kParentGone = SIGRTMAX;

constexpr char kProcessLimitHint[] = "the limit on processes may be reached: see ulimit -u";
constexpr auto kEndingTimeout = std::chrono::seconds(10);

// All but faults and the stops of job control, which stop the keeper and with it the shell's job
// while the training goes on. That it is continued the agent hears, for a rank that has the
// terminal.
sigset_t forwarded_signals() {
    sigset_t signals;
    ::sigfillset(&signals);
    for (const int signal :
         {SIGTSTP, SIGTTIN, SIGTTOU, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS})
        ::sigdelset(&signals, signal);
    return signals;
}

/// Who is below the keeper.
struct Kept {
    pid_t agent = -1;
    pid_t guardian = -1;  ///< the agent's parent; -1: we are that ourselves
};

int exit_code_of(const siginfo_t& ended) {
    return ended.si_code == CLD_EXITED ? ended.si_status : 128 + ended.si_status;
}

// The agent becomes our child when the guardian ends, and is reaped by nobody else: until then its
// number means it and nobody else.
bool has_ended(pid_t pid, siginfo_t& ended) {
    while (::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG) != 0)
        if (errno != EINTR)
            return false;
    return ended.si_pid == pid;
}

// It is our child now, and there; false while the guardian is its parent, too.
bool goes_on(pid_t agent) {
    siginfo_t ended{};
    return ::waitid(P_PID, static_cast<id_t>(agent), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == 0;
}

// A guardian cannot be replaced: an ancestor of the agent can only be made before it.
void see_guardian_end(Kept& kept, const KeeperOptions& options) {
    siginfo_t ended{};
    if (kept.guardian < 0 || !has_ended(kept.guardian, ended))
        return;
    if (goes_on(kept.agent)) {
        std::fprintf(stderr,
                     "autolaunch: its guardian (pid %d) has ended (exit code %d); the %s (pid %d) "
                     "goes on, but if it and this process (pid %d) are killed together now, what "
                     "the ranks started may stay\n",
                     kept.guardian, exit_code_of(ended), options.role, kept.agent, ::getpid());
        std::fflush(stderr);
    }
    kept.guardian = -1;
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

// An agent that a rank has stopped could not end, whoever asks for it: what ends wakes, too.
void pass_on(int signal, pid_t agent) {
    ::kill(agent, signal);
    if (signal == SIGTERM || signal == SIGINT || signal == SIGQUIT || signal == SIGHUP)
        ::kill(agent, SIGCONT);
}

// Until the agent's end. `signals` are blocked.
siginfo_t serve(Kept& kept, pid_t parent, const sigset_t& signals, const KeeperOptions& options) {
    siginfo_t ended{};
    Fence fence(options);
    for (;;) {
        see_guardian_end(kept, options);
        if (has_ended(kept.agent, ended))
            return ended;
        if (fence.failed(kept.agent))
            ::_exit(lost_code(options));
        int signal = next_signal(signals, options.pulse);
        if (signal == kParentGone && options.end_with_parent) {
            signal = ::getppid() == parent ? 0 : SIGTERM;
            if (signal != 0 && options.pulse != nullptr)
                options.pulse->tell_parent_is_gone();
        }
        if (signal > 0 && signal != SIGCHLD)
            pass_on(signal, kept.agent);
    }
}

[[noreturn]] void keep(Kept kept, pid_t parent, const sigset_t& signals,
                       const KeeperOptions& options) {
    if (kept.guardian > 0)
        ::prctl(PR_SET_NAME, "autolaunch-keep");
    else
        disguise_as_guardian(kept.agent);
    if (options.end_with_parent)
        follow_parent(parent);
    if (options.meanwhile)
        options.meanwhile();
    const siginfo_t ended = serve(kept, parent, signals, options);
    const bool all_ended = end_children({}, Deadline::after(kEndingTimeout));
    if (ended.si_code != CLD_EXITED) {
        if (options.bereaved && options.pulse != nullptr &&
            options.pulse->leaves_more_than_processes())
            options.bereaved();
        remove_scratch(options.scratch.c_str());
        std::fprintf(stderr, "autolaunch: its %s (pid %d) was killed by %s; %s\n", options.role,
                     kept.agent, signal_name(ended.si_status).c_str(),
                     all_ended ? "all that it had started was ended" : "some processes do not end");
    }
    std::fflush(stderr);
    if (options.parting && options.pulse != nullptr && options.pulse->asks_for_parting())
        options.parting();
    const bool was_killed = ended.si_code != CLD_EXITED;
    ::_exit(was_killed && lost_code(options) != 0 ? lost_code(options) : exit_code_of(ended));
}

/// What the guardian tells the keeper of the agent's start.
struct AgentStart {
    pid_t agent = -1;
    int error_number = EIO;  ///< when there is none
};

// In the guardian. Returns in the agent only.
void start_agent(pid_t keeper, const UniqueFd& told, const KeeperOptions& options) {
    adopt_orphans();  // before there is an agent that may die
    ::signal(SIGCHLD, SIG_DFL);
    AgentStart start{::fork(), errno};
    if (start.agent == 0)
        return;
    const auto sent = ::write(told.get(), &start, sizeof start);
    if (start.agent < 0 || sent != sizeof start)
        ::_exit(1);
    guard({.keeper = keeper,
           .agent = start.agent,
           .scratch = options.scratch.c_str(),
           .lock = options.lock});
}

// Returns in the keeper, or with no agent in the agent itself.
Kept start_guarded(const KeeperOptions& options) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        throw SystemError(errno, "open a pipe");
    const UniqueFd heard(ends[0]);
    UniqueFd told(ends[1]);
    const pid_t keeper = ::getpid();
    Kept kept;
    kept.guardian = ::fork();
    if (kept.guardian < 0)
        throw SystemError(errno, "start the agent's guardian", kProcessLimitHint);
    if (kept.guardian == 0) {
        start_agent(keeper, told, options);
        return {};
    }
    told.reset();
    AgentStart start;
    if (::read(heard.get(), &start, sizeof start) != sizeof start || start.agent < 0) {
        ::waitpid(kept.guardian, nullptr, 0);
        throw SystemError(start.error_number, "start the agent", kProcessLimitHint);
    }
    kept.agent = start.agent;
    return kept;
}

Kept start_alone() {
    const pid_t pid = ::fork();
    if (pid < 0)
        throw SystemError(errno, "start the agent", kProcessLimitHint);
    return {.agent = pid == 0 ? -1 : pid, .guardian = -1};
}

/// Blocks signals, which are let through again if nothing was started.
class BlockedSignals {
public:
    explicit BlockedSignals(const sigset_t& signals) {
        ::sigprocmask(SIG_BLOCK, &signals, &before_);
    }
    BlockedSignals(const BlockedSignals&) = delete;
    BlockedSignals& operator=(const BlockedSignals&) = delete;
    ~BlockedSignals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_{};
};

}  // namespace

void fill_standard_streams() {
    int fd = 0;
    do {
        fd = ::open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= 2);
    if (fd > 2)
        ::close(fd);
}

UniqueFd start_keeper(const KeeperOptions& options) {
    fill_standard_streams();
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        throw SystemError(errno, "open a pipe");
    UniqueFd keeper_gone(ends[0]);
    UniqueFd kept_open(ends[1]);
    const pid_t parent = ::getppid();
    adopt_orphans();             // not inherited: the agent asks for itself
    ::signal(SIGCHLD, SIG_DFL);  // where it was ignored, the kernel would reap our children
    std::fflush(nullptr);

    const sigset_t signals = forwarded_signals();
    const BlockedSignals blocked(signals);
    const Kept kept = options.guardian ? start_guarded(options) : start_alone();
    if (kept.agent > 0) {
        keeper_gone.reset();
        keep(kept, parent, signals, options);
    }
    kept_open.reset();
    // Away from the terminal's foreground group: Ctrl-C reaches us once, through the keeper.
    // Writing must stay allowed.
    ::setpgid(0, 0);
    ::signal(SIGTTOU, SIG_IGN);
    adopt_orphans();
    return keeper_gone;
}

}  // namespace autolaunch::launcher
