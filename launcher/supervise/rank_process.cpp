#include "supervise/rank_process.hpp"

#include "base/file_io.hpp"
#include "spawn/process_tree.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>

namespace autolaunch::launcher {

namespace {

bool was_asked_to_stop(RankState state) {
    return state == RankState::finishing || state == RankState::saving ||
           state == RankState::interrupted || state == RankState::leaving ||
           state == RankState::stopping || state == RankState::killed;
}

bool has_handler(pid_t pid, int signal) {
    try {
        const std::string status = read_file("/proc/" + std::to_string(pid) + "/status");
        const auto at = status.find("\nSigCgt:");
        if (at == std::string::npos)
            return false;
        const unsigned long long caught = std::strtoull(status.c_str() + at + 8, nullptr, 16);
        return (caught >> (signal - 1) & 1) != 0;
    } catch (const Error&) {
        return false;  // it is gone
    }
}

}  // namespace

RankProcess::RankProcess(asio::io_context& io, const RankPlan& plan, ChildHost* host,
                         ChildMaker make)
    : plan_(plan),
      own_child_(host == nullptr ? std::make_unique<OwnChild>(io, std::move(make)) : nullptr),
      host_(host == nullptr ? *own_child_ : *host) {}

Child RankProcess::start(const ChildSpec& spec, std::function<void(RankProcess&)> on_end) {
    Child child = host_.start(spec, [this](const ChildEnd& end) { on_child_end(end); });
    pid_ = child.pid;
    started_at_ = std::chrono::steady_clock::now();
    on_end_ = std::move(on_end);
    return child;
}

RankAction RankProcess::apply(RankEvent event) {
    const RankTransition next = transition(state_, event);
    state_ = next.next;
    return next.action;
}

void RankProcess::send(int signal) {
    if (!alive())
        return;
    host_.signal_group(signal);
    if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT)
        host_.signal_group(SIGCONT);
}

void RankProcess::wake() {
    if (alive())
        host_.signal_group(SIGCONT);
}

std::vector<pid_t> RankProcess::who_catches(int signal) const {
    std::vector<pid_t> pids;
    if (!alive())
        return pids;
    for (const pid_t pid : list_tree(pid_))
        if (::getpgid(pid) == pid_ && has_handler(pid, signal))
            pids.push_back(pid);
    return pids;
}

void RankProcess::forward(int signal) const {
    for (const pid_t pid : who_catches(signal))
        ::kill(pid, signal);
}

void RankProcess::on_child_end(const ChildEnd& end) {
    exited_ = {.rank = plan_.rank,
               .local_rank = plan_.local_rank,
               .pid = pid_,
               .exit_code = end.exit_code,
               .signal = end.signal,
               .core_dumped = end.core_dumped,
               .asked_to_stop = was_asked_to_stop(state_),
               .ran = std::chrono::duration_cast<std::chrono::milliseconds>(
                   std::chrono::steady_clock::now() - started_at_),
               .last_step = last_step_};
    left_running_ = end.left_running;
    apply(RankEvent::exited);
    const auto on_end = std::move(on_end_);
    on_end(*this);
}

}  // namespace autolaunch::launcher
