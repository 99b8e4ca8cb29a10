#include "pmi/pmixd_process.hpp"

#include "base/owned_folder.hpp"
#include "base/text.hpp"
#include "spawn/program_search.hpp"
#include "spawn/spawn.hpp"

#include <autolaunch/error.hpp>

#include <asio/post.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr const char* kProgram = "autolaunch-pmixd";
constexpr int kEndTime_ms = 200;

std::pair<UniqueFd, UniqueFd> socket_pair() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        throw SystemError(errno, "make a socket pair");
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

PmixdProcess::PmixdProcess(asio::io_context& io, const fs::path& program,
                           const std::vector<std::string>& environment, const fs::path& log,
                           int listener, Handlers handlers)
    : log_(log), handlers_(std::move(handlers)), socket_(io) {
    auto [ours, its] = socket_pair();
    const UniqueFd output = OwnedFolder::open(log.parent_path()).append(log.filename());
    ChildSpec spec;
    spec.argv = {program};
    spec.environment = environment;
    spec.workdir = "/";
    spec.stdin_fd = its.get();
    spec.stdout_fd = spec.stderr_fd = output.get();
    if (listener >= 0)
        spec.inherited_fd = InheritedFd{.fd = listener, .as = pmixd::kListenerFd};
    spec.deaf = true;
    Child child = spawn_child(spec);
    pid_ = child.pid;
    pidfd_ = std::move(child.pidfd);
    ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
    socket_.assign(ours.release());
}

PmixdProcess::~PmixdProcess() {
    ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
    // One that just starts takes some milliseconds to end. Nobody may be left who would reap it.
    pollfd ended{pidfd_.get(), POLLIN, 0};
    ::poll(&ended, 1, kEndTime_ms);
    siginfo_t info{};
    ::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG);
}

void PmixdProcess::send(const pmixd::Message& message) {
    if (ended_)
        return;
    unsent_ += pmixd::encode(message);
    if (!writing_)
        write_now();
}

void PmixdProcess::write_now() {
    writing_ = false;
    while (!unsent_.empty()) {
        const ssize_t sent =
            ::send(socket_.native_handle(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN)
            return end(describe_end());
        if (sent < 0)
            break;
        unsent_.erase(0, static_cast<std::size_t>(sent));
    }
    if (unsent_.empty())
        return;
    writing_ = true;
    socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                       [this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
                           if (!error && !alive.expired())
                               write_now();
                       });
}

pmixd::Ready PmixdProcess::await_ready(Deadline deadline) {
    std::optional<pmixd::Ready> ready;
    std::string failure;
    const auto later = handlers_.on_message;
    handlers_.on_message = [&](pmixd::Message&& message) {
        if (auto* said = std::get_if<pmixd::Ready>(&message))
            ready = std::move(*said);
        else if (const auto* failed = std::get_if<pmixd::Failed>(&message))
            failure = failed->what;
        else
            later(std::move(message));
    };
    while (!ready && failure.empty()) {
        if (deadline.passed())
            failure = "it took too long to start";
        pollfd waited{socket_.native_handle(), POLLIN, 0};
        if (!unsent_.empty())
            waited.events |= POLLOUT;
        ::poll(&waited, 1, deadline.poll_timeout_ms());
        if ((waited.revents & POLLOUT) != 0)
            write_now();
        if ((waited.revents & (POLLIN | POLLHUP)) != 0 && !read_once() && !ready && failure.empty())
            failure = describe_end();
    }
    handlers_.on_message = later;
    if (!ready)
        throw Error(ErrorCode::unsupported,
                    "autolaunch-pmixd cannot serve the MPI ranks: " + failure,
                    log_.string() + " has what it printed");
    read_later();
    return std::move(*ready);
}

void PmixdProcess::read_later() {
    socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
                           if (error || alive.expired() || ended_)
                               return;
                           receive();
                           if (!ended_)
                               read_later();
                       });
}

void PmixdProcess::receive() {
    if (!ended_ && !read_once())
        end(describe_end());
}

void PmixdProcess::receive_until(const std::function<bool()>& done, Deadline deadline) {
    receive();
    while (!ended_ && !done() && !deadline.passed()) {
        pollfd waited{socket_.native_handle(), POLLIN, 0};
        ::poll(&waited, 1, deadline.poll_timeout_ms());
        receive();
    }
}

// All that is there. False when it is gone.
bool PmixdProcess::read_once() {
    std::array<char, 65536> bytes;
    for (;;) {
        const ssize_t count = ::recv(socket_.native_handle(), bytes.data(), bytes.size(), 0);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno == EAGAIN)
            return true;
        if (count <= 0)
            return false;
        reader_.feed({bytes.data(), static_cast<std::size_t>(count)});
        try {
            while (auto message = reader_.next())
                handlers_.on_message(std::move(*message));
        } catch (const Error& error) {
            end(std::string("autolaunch's own helper autolaunch-pmixd said what makes no sense: ") +
                error.what());
            return true;
        }
    }
}

// A process closes its descriptors a little before it can be waited for. Nobody else reaps it
// (MpiService::helper), and the destructor will.
std::string PmixdProcess::describe_end() const {
    const std::string name =
        "autolaunch's own helper autolaunch-pmixd (pid " + std::to_string(pid_) + ") ";
    pollfd ended{pidfd_.get(), POLLIN, 0};
    ::poll(&ended, 1, kEndTime_ms);
    siginfo_t info{};
    if (::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG | WNOWAIT) !=
            0 ||
        info.si_pid == 0)
        return name + "has hung up";
    if (info.si_code == CLD_EXITED)
        return name + "exited with code " + std::to_string(info.si_status);
    return name + "was killed by " + signal_name(info.si_status);
}

void PmixdProcess::end(const std::string& why) {
    if (std::exchange(ended_, true))
        return;
    asio::post(socket_.get_executor(), [this, why, alive = std::weak_ptr(alive_)] {
        if (!alive.expired())
            handlers_.on_end(why + "; " + log_.string() + " has what it printed");
    });
}

fs::path find_pmixd(const std::vector<std::string>& environment) {
    std::error_code error;
    const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
    if (!error)
        for (const char* place :
             {"../libexec/autolaunch", "pmi", "."})  // installed, built, side by side
            if (const fs::path path = folder / place / kProgram; ::access(path.c_str(), X_OK) == 0)
                return path;
    const ProgramSearch found = find_program(kProgram, environment, "");
    return found.error_number == 0 ? fs::path(found.path) : fs::path();
}

}  // namespace autolaunch::launcher
