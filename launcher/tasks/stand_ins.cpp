#include "tasks/stand_ins.hpp"

#include "base/text.hpp"
#include "tasks/task_socket.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <poll.h>
#include <asio/post.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <list>
#include <optional>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;

constexpr auto kSignalTimeout = 1s;
constexpr auto kStartTimeout = 120s;  // a program on a slow network file system
constexpr std::size_t kMostStrangers = 64;

std::map<std::string, std::string> map_of(const std::vector<std::string>& lines) {
    std::map<std::string, std::string> environment;
    for (const auto& line : lines) {
        const std::size_t equals = line.find('=', 1);
        if (equals != std::string::npos)
            environment.emplace(line.substr(0, equals), line.substr(equals + 1));
    }
    return environment;
}

/// Gathers the stand-ins of a node.
class Gathering {
public:
    Gathering(const std::string& address, int task_count)
        : listener_(listen_for_tasks(address, task_count)),
          came_(static_cast<std::size_t>(task_count)) {}

    /// By local task; task 0, the agent's own, stays empty.
    std::vector<std::optional<TaskSocket>> run(Deadline deadline, int cancel_fd);
    std::vector<LocalTask> tasks;

private:
    void wait(Deadline deadline, int cancel_fd);
    bool hear(TaskSocket& stranger);
    std::optional<stand_in::Refused> objection(const stand_in::Hello& hello) const;
    std::vector<std::string> missing() const;

    UniqueFd listener_;
    std::list<TaskSocket> strangers_;  // have connected, and not said who they are
    std::vector<std::optional<TaskSocket>> came_;
};

std::vector<std::optional<TaskSocket>> Gathering::run(Deadline deadline, int cancel_fd) {
    while (!missing().empty()) {
        wait(deadline, cancel_fd);
        while (strangers_.size() < kMostStrangers) {
            UniqueFd socket = accept_task(listener_.get());
            if (!socket)
                break;
            strangers_.emplace_back(std::move(socket));
        }
        strangers_.remove_if([this](TaskSocket& stranger) { return hear(stranger); });
    }
    std::sort(tasks.begin(), tasks.end(),
              [](const auto& a, const auto& b) { return a.local_task < b.local_task; });
    return std::move(came_);
}

std::vector<std::string> Gathering::missing() const {
    std::vector<std::string> missing;
    for (std::size_t task = 1; task < came_.size(); ++task)
        if (!came_[task])
            missing.push_back(std::to_string(task));
    return missing;
}

void Gathering::wait(Deadline deadline, int cancel_fd) {
    const bool has_room = strangers_.size() < kMostStrangers;
    std::vector<pollfd> polled{
        {.fd = has_room ? listener_.get() : -1, .events = POLLIN, .revents = 0},
        {.fd = cancel_fd, .events = POLLIN, .revents = 0}};
    for (const auto& stranger : strangers_)
        polled.push_back({.fd = stranger.fd(), .events = POLLIN, .revents = 0});
    const int ready = ::poll(polled.data(), polled.size(), deadline.poll_timeout_ms());
    if (ready < 0 && errno != EINTR)
        throw SystemError(errno, "wait for the other tasks of this node");
    if (polled[1].revents != 0)
        throw Error(ErrorCode::closed, "autolaunch itself was killed");
    if (ready != 0 || !deadline.passed())
        return;
    const auto names = missing();
    throw TimeoutError(
        (names.size() == 1 ? "task " : "tasks ") + join(names, ", ") + " of the " +
            std::to_string(came_.size()) + " that the scheduler started on this node did not come",
        "each is to run the same autolaunch command; to start the ranks from one, use "
        "--ntasks-per-node=1");
}

// True when we are done with it: it is one of ours now, or nobody.
bool Gathering::hear(TaskSocket& stranger) {
    try {
        const bool open = stranger.receive();
        auto message = stranger.next();
        if (!message)
            return !open;
        const auto* hello = std::get_if<stand_in::Hello>(&*message);
        if (hello == nullptr)
            return true;
        if (const auto refused = objection(*hello)) {
            stranger.send(*refused, Deadline::after(kSignalTimeout));
            return true;
        }
        stranger.send(stand_in::Accepted{}, Deadline::after(kSignalTimeout));
        tasks.push_back({.local_task = hello->local_task,
                         .pid = hello->pid,
                         .environment = map_of(hello->environment),
                         .cpus = {hello->cpus.begin(), hello->cpus.end()}});
        came_[static_cast<std::size_t>(hello->local_task)].emplace(std::move(stranger));
    } catch (const Error&) {  // garbage, or it hung up: if it was a task, it comes again
    }
    return true;
}

std::optional<stand_in::Refused> Gathering::objection(const stand_in::Hello& hello) const {
    const auto refuse = [](const std::string& reason) {
        return stand_in::Refused{
            reason, "all tasks must run the same autolaunch, started by one srun or mpirun"};
    };
    if (hello.protocol != stand_in::kProtocolVersion)
        return refuse("the node's agent is another version of autolaunch");
    if (hello.local_task < 1 || hello.local_task >= static_cast<int>(came_.size()))
        return refuse("the node's agent knows of tasks 0 to " + std::to_string(came_.size() - 1) +
                      ", not of task " + std::to_string(hello.local_task));
    if (came_[static_cast<std::size_t>(hello.local_task)])
        return refuse("task " + std::to_string(hello.local_task) +
                      " of this node is there already");
    return std::nullopt;
}

}  // namespace

/// One stand-in, as a place to start ranks.
class StandIns::Host : public ChildHost {
public:
    Host(int local_task, TaskSocket socket) : local_task_(local_task), socket_(std::move(socket)) {}

    Child start(const ChildSpec& spec, EndHandler on_end) override;
    void signal_group(int signal) override;

    void watch(asio::io_context& io, Handlers handlers);
    void ask_to_end_offspring(Deadline deadline);
    bool offspring_ended(Deadline deadline);
    void finish(int job_exit_code);

private:
    void wait_for_words();
    void hear();
    void take_words();
    void handle(const stand_in::Message& message);
    void rank_ended(const ChildEnd& end);
    void lose();
    stand_in::Message answer(Deadline deadline);
    int exit_code(int job_exit_code) const;
    [[noreturn]] void throw_lost(const ChildSpec& spec, const std::string& how) const;

    const int local_task_;
    TaskSocket socket_;
    bool lost_ = false;
    bool finished_ = false;
    EndHandler on_end_;                ///< there while a rank runs
    bool stopped_ = false;             ///< that rank, by us
    std::optional<ChildEnd> failure_;  ///< of the last rank, by itself
    std::optional<asio::posix::stream_descriptor> readable_;
    Handlers handlers_;
};

Child StandIns::Host::start(const ChildSpec& spec, EndHandler on_end) {
    if (lost_)
        throw_lost(spec, "is gone");
    stand_in::Start start{.spec = spec};
    // Its own limit, not the agent's, is the rank's.
    start.spec.file_limit.reset();
    start.inherited_as = spec.inherited_fd ? spec.inherited_fd->as : -1;
    std::vector<int> descriptors;
    const int given[] = {spec.stdin_fd, spec.stdout_fd, spec.stderr_fd,
                         spec.inherited_fd ? spec.inherited_fd->fd : -1};
    for (std::size_t i = 0; i < std::size(given); ++i) {
        if (given[i] < 0)
            continue;
        start.descriptors |= 1U << i;
        descriptors.push_back(given[i]);
    }
    stand_in::Message reply;
    try {
        socket_.send(start, Deadline::after(kTaskSendTimeout), descriptors);
        reply = answer(Deadline::after(kStartTimeout));
    } catch (const Error& error) {
        lost_ = true;
        throw_lost(spec, error.code() == ErrorCode::timeout ? "does not answer" : "is gone");
    }
    failure_.reset();
    stopped_ = false;
    if (const auto* failed = std::get_if<stand_in::StartFailed>(&reply))
        throw SpawnError(static_cast<SpawnStage>(failed->stage), failed->error_number, failed->what,
                         failed->hint);
    const auto* started = std::get_if<stand_in::Started>(&reply);
    if (started == nullptr)
        throw_lost(spec, "makes no sense");
    on_end_ = std::move(on_end);
    return {.pid = started->pid,
            .pidfd = UniqueFd(),
            .affinity_error = started->affinity_error,
            .memory_policy_error = started->memory_policy_error};
}

void StandIns::Host::throw_lost(const ChildSpec& spec, const std::string& how) const {
    throw SpawnError(SpawnStage::stand_in, ESRCH,
                     "cannot start " + (spec.argv.empty() ? "a rank" : spec.argv[0]) + ": task " +
                         std::to_string(local_task_) + " of this node, which is to start it, " +
                         how,
                     "was it killed, or did it run out of memory? The scheduler's log may say so");
}

// The reply to what we asked; what the task says by itself is handled as ever, from the event loop.
stand_in::Message StandIns::Host::answer(Deadline deadline) {
    for (;;) {
        auto message = socket_.wait(deadline);
        const bool by_itself = std::holds_alternative<stand_in::Signalled>(message) ||
                               std::holds_alternative<stand_in::Ended>(message);
        if (by_itself && readable_)
            asio::post(readable_->get_executor(), [this, message] { handle(message); });
        if (by_itself)
            continue;
        if (socket_.has_received() && readable_)
            asio::post(readable_->get_executor(), [this] { take_words(); });
        return message;
    }
}

void StandIns::Host::signal_group(int signal) {
    if (lost_ || !on_end_)
        return;
    if (signal == SIGTERM || signal == SIGKILL)
        stopped_ = true;
    try {
        socket_.send(stand_in::SignalGroup{signal}, Deadline::after(kSignalTimeout));
    } catch (const Error&) {  // it hangs or is gone; the end of the connection tells
    }
}

void StandIns::Host::watch(asio::io_context& io, Handlers handlers) {
    handlers_ = std::move(handlers);
    // A descriptor of its own: asio closes what it is given.
    const int fd = ::fcntl(socket_.fd(), F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        throw SystemError(errno, "watch the tasks of this node");
    readable_.emplace(io, fd);
    wait_for_words();
}

void StandIns::Host::wait_for_words() {
    readable_->async_wait(asio::posix::stream_descriptor::wait_read,
                          [this](const std::error_code& error) {
                              if (!error)
                                  hear();
                          });
}

void StandIns::Host::hear() {
    try {
        const bool open = socket_.receive();
        take_words();
        if (!open)
            return lose();
    } catch (const Error&) {
        return lose();
    }
    wait_for_words();
}

void StandIns::Host::take_words() {
    while (const auto message = socket_.next())
        handle(*message);
}

void StandIns::Host::handle(const stand_in::Message& message) {
    if (const auto* ended = std::get_if<stand_in::Ended>(&message)) {
        rank_ended({.exit_code = ended->exit_code,
                    .signal = ended->signal,
                    .core_dumped = ended->core_dumped});
    } else if (const auto* signalled = std::get_if<stand_in::Signalled>(&message)) {
        if (handlers_.on_signal)
            handlers_.on_signal(local_task_, signalled->signal);
    }
}

void StandIns::Host::rank_ended(const ChildEnd& end) {
    if (!on_end_)
        return;
    if (!stopped_ && end.exit_code != 0)
        failure_ = end;
    const auto on_end = std::exchange(on_end_, nullptr);
    on_end(end);
}

void StandIns::Host::lose() {
    lost_ = true;
    if (finished_)
        return;
    if (handlers_.on_lost)
        handlers_.on_lost(local_task_);
    rank_ended({.exit_code = {}, .signal = SIGKILL});
}

void StandIns::Host::ask_to_end_offspring(Deadline deadline) {
    if (lost_)
        return;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.remaining());
    try {
        socket_.send(stand_in::EndOffspring{static_cast<std::uint32_t>(left.count())}, deadline);
    } catch (const Error&) {
        lost_ = true;
    }
}

bool StandIns::Host::offspring_ended(Deadline deadline) {
    if (lost_)
        return true;  // its keeper sees to it
    try {
        const auto message = answer(deadline);
        const auto* ended = std::get_if<stand_in::OffspringEnded>(&message);
        return ended != nullptr && ended->all;
    } catch (const TimeoutError&) {
        return false;
    } catch (const Error&) {
        lost_ = true;
        return true;
    }
}

int StandIns::Host::exit_code(int job_exit_code) const {
    if (!failure_)
        return 0;
    return std::min(failure_->exit_code.value_or(128 + failure_->signal.value_or(0)),
                    job_exit_code);
}

void StandIns::Host::finish(int job_exit_code) {
    if (lost_ || std::exchange(finished_, true))
        return;
    try {
        socket_.send(stand_in::Finish{exit_code(job_exit_code)}, Deadline::after(kSignalTimeout));
    } catch (const Error&) {  // it is gone already
    }
}

StandIns::StandIns(const std::string& address, int task_count, Deadline deadline, int cancel_fd) {
    Gathering gathering(address, task_count);
    auto sockets = gathering.run(deadline, cancel_fd);
    tasks_ = std::move(gathering.tasks);
    for (std::size_t task = 1; task < sockets.size(); ++task)
        hosts_.push_back(std::make_unique<Host>(static_cast<int>(task), std::move(*sockets[task])));
}

StandIns::~StandIns() { finish(0); }

void StandIns::watch(asio::io_context& io, Handlers handlers) {
    for (auto& host : hosts_)
        host->watch(io, handlers);
}

ChildHost& StandIns::host(int local_task) {
    return *hosts_.at(static_cast<std::size_t>(local_task - 1));
}

bool StandIns::end_offspring(Deadline deadline) {
    for (auto& host : hosts_)
        host->ask_to_end_offspring(deadline);
    bool all = true;
    // The tasks use all of the time that they were given, and then answer.
    const Deadline answers(deadline.at() + kSignalTimeout);
    for (auto& host : hosts_)
        all = host->offspring_ended(answers) && all;
    return all;
}

void StandIns::finish(int job_exit_code) {
    for (auto& host : hosts_)
        host->finish(job_exit_code);
}

}  // namespace autolaunch::launcher
