#include "tasks/stand_in.hpp"

#include "base/text.hpp"
#include "spawn/process_tree.hpp"
#include "spawn/spawn.hpp"
#include "tasks/task_socket.hpp"

#include <autolaunch/error.hpp>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;

// Not above the code of the agent's own task, which counts (docs/exit-codes.md).
constexpr int kAgentLost = 68;
constexpr auto kEndingTimeout = 10s;
constexpr auto kShortestPause = 1ms, kLongestPause = 50ms;  // between two looks for the agent

// All that would end us, and SIGCHLD; not faults, not job control, and nothing that was ignored
// when we started.
sigset_t watched_signals() {
    sigset_t signals;
    ::sigfillset(&signals);
    for (const int signal : {SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGSEGV, SIGBUS, SIGFPE, SIGILL,
                             SIGABRT, SIGTRAP, SIGSYS})
        ::sigdelset(&signals, signal);
    for (int signal = 1; signal < NSIG; ++signal) {
        struct sigaction current {};
        const bool ignored =
            ::sigaction(signal, nullptr, &current) == 0 && current.sa_handler == SIG_IGN;
        if (ignored && signal != SIGCHLD)
            ::sigdelset(&signals, signal);
    }
    return signals;
}

bool stops(int signal) {
    return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

/// One task: its line to the agent, its signals, its rank.
class StandIn {
public:
    explicit StandIn(const StandInOptions& options);
    int run();

private:
    std::optional<int> find_agent();
    bool introduce(UniqueFd socket, Deadline deadline);
    std::optional<int> wait_before_agent(std::chrono::milliseconds pause);
    void wait_for_events();

    std::optional<int> take_messages();
    void start_rank(stand_in::Start start);
    void end_offspring(std::chrono::milliseconds timeout);
    void tell(const stand_in::Message& message) {
        agent_->send(message, Deadline::after(kTaskSendTimeout));
    }
    void tell_signals();
    void reap();
    void drain_input();
    int give_up();
    int next_signal();
    bool is_readable(std::size_t which) const { return polled_[which].revents != 0; }
    std::vector<pid_t> live() const {
        return rank_ ? std::vector{rank_->pid} : std::vector<pid_t>{};
    }

    enum : std::size_t { kSignals, kKeeper, kAgent, kRank, kInput, kPolled };

    const StandInOptions& options_;
    UniqueFd signals_;
    std::optional<TaskSocket> agent_;
    std::optional<Child> rank_;
    int stop_signal_ = 0;  ///< that reached this task, and so probably the agent
    int unread_input_;
    std::array<pollfd, kPolled> polled_{};
};

StandIn::StandIn(const StandInOptions& options)
    : options_(options), unread_input_(options.unread_input) {
    const sigset_t signals = watched_signals();
    ::sigprocmask(SIG_BLOCK, &signals, nullptr);
    signals_.reset(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_)
        throw SystemError(errno, "watch for signals");
    ::prctl(PR_SET_NAME, "autolaunch-task");
}

int StandIn::run() {
    if (const auto stopped = find_agent())
        return *stopped;
    for (;;) {
        try {
            // Before the first wait, too: an order may have come right behind Accepted.
            if (const auto code = take_messages())
                return *code;
            wait_for_events();
            if (is_readable(kKeeper))
                return give_up();
            if (is_readable(kSignals))
                tell_signals();
            if (is_readable(kRank))
                reap();
            if (is_readable(kInput))
                drain_input();
        } catch (const Error&) {  // the agent is gone, or makes no sense
            return give_up();
        }
    }
}

// The exit code when we are to stop before there is one. Tasks start in any order, so it may not
// listen yet; and one that hangs up before it has accepted us was of an earlier run.
std::optional<int> StandIn::find_agent() {
    const auto deadline = Deadline::after(options_.agent_timeout);
    for (auto pause = kShortestPause; !deadline.passed();
         pause = std::min<std::chrono::milliseconds>(pause * 2, kLongestPause)) {
        if (UniqueFd socket = connect_to_agent(options_.address);
            socket && introduce(std::move(socket), deadline))
            return std::nullopt;
        if (const auto code = wait_before_agent(pause))
            return code;
    }
    throw TimeoutError("task " + std::to_string(options_.local_task) +
                           " of this node found no agent at @" + options_.address + " in " +
                           std::to_string(options_.agent_timeout.count() / 1000) + " s",
                       "the agent is task 0 of the node: look for its own message; all tasks must "
                       "run the same command");
}

bool StandIn::introduce(UniqueFd socket, Deadline deadline) {
    TaskSocket agent(std::move(socket));
    try {
        agent.send(stand_in::Hello{.local_task = options_.local_task,
                                   .pid = ::getpid(),
                                   .environment = options_.environment,
                                   .cpus = {options_.cpus.begin(), options_.cpus.end()}},
                   deadline);
        const auto answer = agent.wait(deadline);
        if (const auto* refused = std::get_if<stand_in::Refused>(&answer))
            throw Error(ErrorCode::mismatch, refused->reason, refused->hint);
        if (!std::holds_alternative<stand_in::Accepted>(answer))
            return false;
    } catch (const Error& error) {
        if (error.code() == ErrorCode::mismatch)
            throw;
        return false;
    }
    agent_.emplace(std::move(agent));
    return true;
}

std::optional<int> StandIn::wait_before_agent(std::chrono::milliseconds pause) {
    polled_[kSignals] = {.fd = signals_.get(), .events = POLLIN, .revents = 0};
    polled_[kKeeper] = {.fd = options_.keeper_gone, .events = POLLIN, .revents = 0};
    if (::poll(polled_.data(), kAgent, static_cast<int>(pause.count())) <= 0)
        return std::nullopt;
    if (is_readable(kKeeper))
        return 128 + SIGKILL;
    while (const int signal = next_signal())
        if (stops(signal))
            return 128 + signal;
    return std::nullopt;
}

void StandIn::wait_for_events() {
    const std::array fds{signals_.get(), options_.keeper_gone, agent_->fd(),
                         rank_ ? rank_->pidfd.get() : -1, unread_input_};
    for (std::size_t i = 0; i < kPolled; ++i)
        polled_[i] = {.fd = fds[i], .events = POLLIN, .revents = 0};
    // Without a deadline: the agent's end, our keeper's end and every signal wake us.
    while (::poll(polled_.data(), kPolled, -1) < 0)
        if (errno != EINTR)
            throw SystemError(errno, "wait for the agent");
}

std::optional<int> StandIn::take_messages() {
    const bool open = agent_->receive();
    while (auto message = agent_->next()) {
        if (auto* start = std::get_if<stand_in::Start>(&*message)) {
            start_rank(std::move(*start));
        } else if (const auto* signal = std::get_if<stand_in::SignalGroup>(&*message)) {
            if (rank_)
                ::kill(-rank_->pid, signal->signal);
        } else if (const auto* offspring = std::get_if<stand_in::EndOffspring>(&*message)) {
            end_offspring(std::chrono::milliseconds(offspring->timeout_ms));
        } else if (const auto* finish = std::get_if<stand_in::Finish>(&*message)) {
            rank_.reset();
            end_children({}, Deadline::after(kEndingTimeout));
            return finish->exit_code;
        }
    }
    if (!open)
        return give_up();
    return std::nullopt;
}

void StandIn::start_rank(stand_in::Start start) {
    std::array<UniqueFd, 4> descriptors;
    for (std::size_t i = 0; i < descriptors.size(); ++i)
        if ((start.descriptors >> i & 1) != 0)
            descriptors[i] = std::move(agent_->take_descriptors(1)[0]);
    start.spec.stdin_fd = descriptors[0].get();
    start.spec.stdout_fd = descriptors[1].get();
    start.spec.stderr_fd = descriptors[2].get();
    if (descriptors[3])
        start.spec.inherited_fd = InheritedFd{descriptors[3].get(), start.inherited_as};
    try {
        rank_.emplace(spawn_child(start.spec));
    } catch (const SpawnError& error) {
        return tell(stand_in::StartFailed{.stage = static_cast<std::int32_t>(error.stage()),
                                          .error_number = error.error_number(),
                                          .what = error.what(),
                                          .hint = error.hint()});
    }
    tell(stand_in::Started{.pid = rank_->pid,
                           .affinity_error = rank_->affinity_error,
                           .memory_policy_error = rank_->memory_policy_error});
}

void StandIn::end_offspring(std::chrono::milliseconds timeout) {
    tell(stand_in::OffspringEnded{end_children(live(), Deadline::after(timeout))});
}

void StandIn::tell_signals() {
    while (const int signal = next_signal()) {
        if (signal == SIGCHLD) {
            reap_orphans(live());
        } else {
            if (stops(signal))
                stop_signal_ = signal;
            tell(stand_in::Signalled{signal});
        }
    }
}

void StandIn::reap() {
    const auto end = reap_child(rank_->pid, rank_->pidfd.get());
    if (!end)
        return;
    rank_.reset();
    tell(stand_in::Ended{
        .exit_code = end->exit_code, .signal = end->signal, .core_dumped = end->core_dumped});
}

// Readable: it does not wait. Its writer stops at the first task that lets its copy pile up.
void StandIn::drain_input() {
    std::array<char, 65536> bytes;
    const ssize_t count = ::read(unread_input_, bytes.data(), bytes.size());
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN))
        unread_input_ = -1;
}

int StandIn::give_up() {
    rank_.reset();
    end_children({}, Deadline::after(kEndingTimeout));
    while (const int signal = next_signal())
        if (stops(signal))
            stop_signal_ = signal;
    return stop_signal_ != 0 ? 128 + stop_signal_ : kAgentLost;
}

// 0 when there is none.
int StandIn::next_signal() {
    signalfd_siginfo info{};
    return ::read(signals_.get(), &info, sizeof info) == sizeof info
               ? static_cast<int>(info.ssi_signo)
               : 0;
}

}  // namespace

int run_stand_in(const StandInOptions& options) { return StandIn(options).run(); }

}  // namespace autolaunch::launcher
