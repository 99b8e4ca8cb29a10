#include "supervise/rank_process.hpp"

#include "base/file_io.hpp"

#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

RankProcess::RankProcess(asio::io_context& io, const RankPlan& plan) : plan_(plan), pidfd_(io) {}

Child RankProcess::start(const ChildSpec& spec, std::function<void(RankProcess&)> on_end) {
    Child child = spawn_child(spec);
    pid_ = child.pid;
    started_at_ = std::chrono::steady_clock::now();
    on_end_ = std::move(on_end);
    pidfd_.assign(child.pidfd.release());
    wait_for_end();
    return child;
}

RankAction RankProcess::apply(RankEvent event) {
    const RankTransition next = transition(state_, event);
    state_ = next.next;
    return next.action;
}

void RankProcess::send(int signal) {
    if (!alive()) return;
    ::kill(-pid_, signal);
    if (signal == SIGTERM) ::kill(-pid_, SIGCONT);
}

bool RankProcess::catches(int signal) const {
    try {
        const std::string status = read_file("/proc/" + std::to_string(pid_) + "/status");
        const auto at = status.find("\nSigCgt:");
        if (at == std::string::npos) return false;
        const unsigned long long caught = std::strtoull(status.c_str() + at + 8, nullptr, 16);
        return (caught >> (signal - 1) & 1) != 0;
    } catch (const Error&) {
        return false;  // it is gone
    }
}

void RankProcess::wait_for_end() {
    pidfd_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const std::error_code& error) {
        if (!error) reap();
    });
}

void RankProcess::reap() {
    const auto pidfd = static_cast<id_t>(pidfd_.native_handle());
    siginfo_t info{};
    if (::waitid(P_PIDFD, pidfd, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0) return wait_for_end();
    // The leader is not reaped yet, so its number still means this group and no other.
    ::kill(-pid_, SIGKILL);
    while (::waitid(P_PIDFD, pidfd, &info, WEXITED) != 0 && errno == EINTR) {
    }
    exited_ = {
        .rank = plan_.rank,
        .local_rank = plan_.local_rank,
        .pid = pid_,
        .exit_code = {},
        .signal = {},
        .core_dumped = info.si_code == CLD_DUMPED,
        .asked_to_stop = state_ == RankState::finishing || state_ == RankState::stopping || state_ == RankState::killed,
        .ran = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - started_at_),
        .last_step = last_step_};
    (info.si_code == CLD_EXITED ? exited_.exit_code : exited_.signal) = info.si_status;
    apply(RankEvent::exited);
    pidfd_.close();
    const auto on_end = std::move(on_end_);
    on_end(*this);
}

}  // namespace autolaunch::launcher
