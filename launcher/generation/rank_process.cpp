#include "generation/rank_process.hpp"

#include "spawn/process_condition.hpp"
#include "spawn/process_tree.hpp"

#include <unistd.h>

#include <csignal>
#include <utility>

namespace autolaunch::launcher {

namespace {

bool was_asked_to_stop(RankState state) {
    return state == RankState::finishing || state == RankState::saving ||
           state == RankState::interrupted || state == RankState::leaving ||
           state == RankState::stopping || state == RankState::killed;
}

}  // namespace

RankProcess::RankProcess(asio::io_context& io, const RankPlan& plan, ChildHost* host,
                         ChildMaker make)
    : plan_(&plan),
      local_rank_(plan.local_rank),
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

pid_t RankProcess::program_pid() const {
    const pid_t inside = contained_ ? contained_->pid() : -1;
    return inside > 0 ? inside : pid_;
}

// What starts a container is not told where the program itself is: it would only pass it on.
void RankProcess::signal_program(int signal) {
    const bool told = contained_ && contained_->signal_group(signal);
    if (!told || signal == SIGKILL)
        host_.signal_group(signal);
}

void RankProcess::send(int signal) {
    if (!alive())
        return;
    signal_program(signal);
    if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT)
        signal_program(SIGCONT);
}

void RankProcess::wake() {
    if (alive())
        signal_program(SIGCONT);
}

std::vector<pid_t> RankProcess::who_catches(int signal) const {
    std::vector<pid_t> pids;
    if (!alive())
        return pids;
    const pid_t leader = program_pid();
    for (const pid_t pid : list_tree(leader))
        if (::getpgid(pid) == leader && has_handler(pid, signal))
            pids.push_back(pid);
    return pids;
}

void RankProcess::forward(int signal) const {
    for (const pid_t pid : who_catches(signal))
        ::kill(pid, signal);
}

void RankProcess::on_child_end(const ChildEnd& ended) {
    if (contained_)  // it goes on where what has started it was killed
        contained_->signal_group(SIGKILL);
    const ChildEnd end = contained_ ? end_in_container(ended) : ended;
    exited_ = {.rank = plan_->rank,
               .local_rank = plan_->local_rank,
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
