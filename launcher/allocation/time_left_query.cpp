#include "allocation/time_left_query.hpp"

#include "allocation/slurm_time.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <string_view>

namespace autolaunch::launcher {
namespace {

constexpr std::size_t kLongestAnswer = std::size_t{64}
                                       << 10;  // the largest array that runs at once, a line each
// Slurm's backfill scheduler takes a job without limit for one of 365 days, and says so for a
// while.
constexpr auto kNoLimit = std::chrono::hours(24 * 364);
constexpr int kEndTime_ms = 1000;  // SIGKILL takes no time, except in the kernel

// posix_spawn's settings: no standard input, its output to us, no other descriptor, no signal
// blocked or ignored.
class SpawnSettings {
public:
    explicit SpawnSettings(int output) {
        ::posix_spawn_file_actions_init(&actions_);
        ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
        ::posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        ::posix_spawnattr_init(&attributes_);
        sigset_t none, all;
        ::sigemptyset(&none);
        ::sigfillset(&all);
        ::posix_spawnattr_setsigmask(&attributes_, &none);
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

bool is_job_id(const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

/// An array has the job id of its last element: asked for that one, squeue answers with a line for
/// each.
std::optional<std::chrono::seconds> time_left_of(const std::string& job, std::string_view answer) {
    const std::string start = job + ' ';
    std::optional<std::chrono::seconds> left;
    int lines = 0;
    while (!answer.empty()) {
        const std::string_view line = answer.substr(0, answer.find('\n'));
        answer.remove_prefix(std::min(line.size() + 1, answer.size()));
        if (!line.starts_with(start))
            continue;
        left = parse_slurm_time(line.substr(start.size()));
        ++lines;
    }
    return lines == 1 ? left : std::nullopt;
}

}  // namespace

TimeLeftQuery::TimeLeftQuery(const std::string& slurm_job_id) : job_(slurm_job_id) {
    std::array<int, 2> ends{};
    if (!is_job_id(slurm_job_id) || ::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0)
        return;
    UniqueFd read_end(ends[0]);
    const UniqueFd write_end(ends[1]);
    const SpawnSettings settings(write_end.get());
    std::string name = "squeue", header = "-h", option = "-j", job = slurm_job_id, form = "-o%A %L";
    std::array<char*, 6> arguments = {name.data(), header.data(), option.data(),
                                      job.data(),  form.data(),   nullptr};
    pid_t pid = 0;
    if (::posix_spawnp(&pid, name.c_str(), settings.actions(), settings.attributes(),
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
}

TimeLeftQuery::~TimeLeftQuery() { end(); }

void TimeLeftQuery::end() noexcept {
    answer_fd_.reset();
    if (!process_)
        return;
    ::syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
    pollfd ended{process_.get(), POLLIN, 0};
    while (::poll(&ended, 1, kEndTime_ms) < 0 && errno == EINTR) {
    }
    siginfo_t ignored{};  // nothing to reap where whoever reaps orphans was faster
    ::waitid(P_PIDFD, static_cast<id_t>(process_.get()), &ignored, WEXITED | WNOHANG);
    process_.reset();
}

bool TimeLeftQuery::advance() {
    std::array<char, 4096> buffer;
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
        end();
    }
    return true;
}

std::optional<std::chrono::seconds> TimeLeftQuery::wait(const Deadline& deadline) {
    while (!advance()) {
        pollfd ready{answer_fd_.get(), POLLIN, 0};
        if (::poll(&ready, 1, deadline.poll_timeout_ms()) == 0) {
            answer_.clear();
            end();
        }
    }
    return time_left();
}

std::optional<std::chrono::seconds> TimeLeftQuery::time_left() const {
    const bool whole =
        !answer_fd_ && answer_.ends_with('\n');  // or else it was ended while it spoke
    const auto left = whole ? time_left_of(job_, answer_) : std::nullopt;
    return left && *left > kNoLimit ? std::nullopt : left;
}

}  // namespace autolaunch::launcher
