#include "allocation/slurm_command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kLongestAnswer = std::size_t{256}
                                       << 10;  // the largest array that runs at once, a line each
constexpr int kEndTime_ms = 1000;              // SIGKILL takes no time, except in the kernel

// Commands are few, and short.
struct UnderWay {
    std::mutex mutex;
    std::vector<pid_t> pids;
};
UnderWay& all_under_way() {
    static UnderWay under_way;
    return under_way;
}

// We must not wait for the command; it may wait for us, or it would lose what no pipe holds.
bool make_pipe(UniqueFd& read_end, UniqueFd& write_end) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        return false;
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
    return ::fcntl(read_end.get(), F_SETFL, O_NONBLOCK) == 0;
}

// posix_spawn's settings: no standard input, its output to us, no other descriptor. Stops are
// blocked, for Slurm sends them to all processes of a step, and the command is to say why.
class SpawnSettings {
public:
    /// `errors`: where stderr goes; -1: nowhere.
    SpawnSettings(int output, int errors) {
        ::posix_spawn_file_actions_init(&actions_);
        ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
        if (errors >= 0)
            ::posix_spawn_file_actions_adddup2(&actions_, errors, STDERR_FILENO);
        else
            ::posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        ::posix_spawnattr_init(&attributes_);
        sigset_t stops, all;
        ::sigemptyset(&stops);
        for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
            ::sigaddset(&stops, signal);
        ::sigfillset(&all);
        ::posix_spawnattr_setsigmask(&attributes_, &stops);
        ::posix_spawnattr_setsigdefault(&attributes_, &all);
        ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    SpawnSettings(const SpawnSettings&) = delete;
    SpawnSettings& operator=(const SpawnSettings&) = delete;
    ~SpawnSettings() {
        ::posix_spawn_file_actions_destroy(&actions_);
        ::posix_spawnattr_destroy(&attributes_);
    }

    const posix_spawn_file_actions_t* actions() const { return &actions_; }
    const posix_spawnattr_t* attributes() const { return &attributes_; }

private:
    posix_spawn_file_actions_t actions_{};
    posix_spawnattr_t attributes_{};
};

}  // namespace

SlurmCommand::SlurmCommand(std::vector<std::string> argv, Errors errors) {
    UniqueFd read_end, write_end, errors_end;
    if (argv.empty() || !make_pipe(read_end, write_end))
        return;
    errors_apart_ = errors == Errors::apart;
    if (errors_apart_ && !make_pipe(errors_fd_, errors_end))
        return;
    const int errors_to = errors == Errors::take ? write_end.get() : errors_end.get();
    const SpawnSettings settings(write_end.get(), errors_to);
    std::vector<char*> arguments;
    for (std::string& argument : argv)
        arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    pid_t pid = 0;
    if (::posix_spawnp(&pid, arguments[0], settings.actions(), settings.attributes(),
                       arguments.data(), environ) != 0)
        return;
    process_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!process_) {  // a kernel without pidfds: do without the answer
        ::kill(pid, SIGKILL);
        while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
        }
        return;
    }
    answer_fd_ = std::move(read_end);
    pid_ = pid;
    const std::scoped_lock lock(all_under_way().mutex);
    all_under_way().pids.push_back(pid_);
}

SlurmCommand::~SlurmCommand() { end(); }

std::vector<pid_t> SlurmCommand::under_way() {
    const std::scoped_lock lock(all_under_way().mutex);
    return all_under_way().pids;
}

void SlurmCommand::end() noexcept {
    answer_fd_.reset();
    if (!process_)
        return;
    pollfd ended{process_.get(), POLLIN, 0};
    if (said_all_ && errors_apart_)  // its code is wanted, which SIGKILL would take away
        while (::poll(&ended, 1, kEndTime_ms) < 0 && errno == EINTR) {
        }
    ::syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
    while (::poll(&ended, 1, kEndTime_ms) < 0 && errno == EINTR) {
    }
    siginfo_t how{};  // nothing to reap where whoever reaps orphans was faster
    ::waitid(P_PIDFD, static_cast<id_t>(process_.get()), &how, WEXITED | WNOHANG);
    if (how.si_code == CLD_EXITED)
        exit_code_ = how.si_status;
    process_.reset();
    take_errors();
    errors_fd_.reset();
    const std::scoped_lock lock(all_under_way().mutex);
    std::erase(all_under_way().pids, pid_);
}

void SlurmCommand::take_errors() noexcept {
    std::array<char, 4096> buffer;
    while (errors_fd_) {
        const ssize_t got = ::read(errors_fd_.get(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return;
        if (got == 0)
            errors_fd_.reset();
        else if (errors_.size() + static_cast<std::size_t>(got) <= kLongestAnswer)
            errors_.append(buffer.data(), static_cast<std::size_t>(got));
    }
}

bool SlurmCommand::advance() {
    std::array<char, 4096> buffer;
    take_errors();
    while (answer_fd_) {
        const ssize_t got = ::read(answer_fd_.get(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return false;
        if (got > 0 && answer_.size() + static_cast<std::size_t>(got) <= kLongestAnswer) {
            answer_.append(buffer.data(), static_cast<std::size_t>(got));
            continue;
        }
        if (got != 0)
            answer_.clear();  // an error, or no end
        said_all_ = got == 0;
        end();
    }
    return true;
}

std::string SlurmCommand::wait(const Deadline& deadline) {
    while (!advance()) {
        // A descriptor below 0 is passed over.
        std::array<pollfd, 2> ready{
            {{answer_fd_.get(), POLLIN, 0}, {errors_fd_ ? errors_fd_.get() : -1, POLLIN, 0}}};
        if (::poll(ready.data(), ready.size(), deadline.poll_timeout_ms()) == 0) {
            answer_.clear();
            end();
        }
    }
    return answer();
}

// Or else it was ended while it spoke.
std::string SlurmCommand::answer() const {
    return !answer_fd_ && answer_.ends_with('\n') ? answer_ : std::string();
}

std::string SlurmCommand::so_far() const { return answer_.substr(0, answer_.rfind('\n') + 1); }

}  // namespace autolaunch::launcher
