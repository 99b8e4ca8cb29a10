#include "spawn/helper_process.hpp"

#include "base/deadline.hpp"
#include "spawn/child_setup.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <utility>

namespace autolaunch::launcher {
namespace {

// Of the agent's one thread.
std::vector<pid_t>& all_lasting() {
    static std::vector<pid_t> pids;
    return pids;
}

constexpr auto kEndTime = std::chrono::milliseconds(50);
constexpr int kOutput = 3;
constexpr auto kByPidfd = static_cast<idtype_t>(3);  // P_PIDFD, which older C libraries do not name

// What a process that hangs holds must not hold up others: sockets, or a pipe that somebody reads
// our output from.
void keep_only(int output) {
    const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        ::dup2(nowhere, standard);
    if (output != kOutput)
        ::dup3(output, kOutput, O_CLOEXEC);
    ::syscall(SYS_close_range, kOutput + 1, ~0U, 0);
}

[[noreturn]] void run(const std::function<void(int)>& work, int output, pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent)
        ::_exit(1);
    reset_signals();
    ignore_requests();
    const rlimit no_core = {0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    keep_only(output);
    try {
        work(kOutput);
    } catch (...) {
        ::_exit(1);  // the parent sees the end of the pipe
    }
    ::_exit(0);
}

}  // namespace

HelperProcess::HelperProcess(const std::function<void(int output)>& work, Lifetime lifetime) {
    std::array<int, 2> ends = {-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        throw SystemError(errno, "make a pipe for a helper process");
    output_.reset(ends[0]);
    const UniqueFd writing(ends[1]);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0)
        throw SystemError(errno, "start a helper process");
    if (pid_ == 0)
        run(work, writing.get(), parent);
    if (lifetime == Lifetime::job)
        all_lasting().push_back(pid_);
    process_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
}

HelperProcess::HelperProcess(HelperProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      process_(std::move(other.process_)),
      output_(std::move(other.output_)) {}

HelperProcess& HelperProcess::operator=(HelperProcess&& other) noexcept {
    if (this == &other)
        return *this;
    end();
    pid_ = std::exchange(other.pid_, -1);
    process_ = std::move(other.process_);
    output_ = std::move(other.output_);
    return *this;
}

HelperProcess::~HelperProcess() { end(); }

bool HelperProcess::read_some(std::string& text) {
    std::array<char, std::size_t{64} << 10> buffer;
    while (output_) {
        const ssize_t got = ::read(output_.get(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return true;
        if (got <= 0)
            return false;
        text.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return false;
}

void HelperProcess::kill() {
    output_.reset();
    if (pid_ < 0)
        return;
    if (process_) {
        ::syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
    } else if (!gone()) {
        ::kill(pid_, SIGKILL);
    }
}

bool HelperProcess::gone() {
    if (pid_ < 0)
        return true;
    siginfo_t info{};
    int result =
        process_ ? ::waitid(kByPidfd, static_cast<id_t>(process_.get()), &info, WEXITED | WNOHANG)
                 : -1;
    if (!process_ || (result != 0 && errno == EINVAL))
        result = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG);
    if (result == 0 && info.si_pid == 0)
        return false;
    process_.reset();  // reaped now, or by somebody else before
    std::erase(all_lasting(), pid_);
    pid_ = -1;
    return true;
}

void HelperProcess::end() {
    kill();
    for (const Deadline soon = Deadline::after(kEndTime); !gone() && !soon.passed();)
        ::usleep(200);
    process_.reset();
    std::erase(all_lasting(), pid_);
    pid_ = -1;
}

std::vector<pid_t> HelperProcess::lasting() { return all_lasting(); }

}  // namespace autolaunch::launcher
