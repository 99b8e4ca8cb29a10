#include "base/deadline.hpp"
#include "causes/stop_cause.hpp"
#include "exit_codes/exit_codes.hpp"
#include "stopping/stop_budget.hpp"
#include "supervise/job_supervisor.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

// What ranks have written on their nodes' disks, between their end and the job's.

namespace autolaunch::launcher {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Before the allocation's end: what stays has to be told by then.
constexpr auto kToTell = std::chrono::seconds(3);

}  // namespace

// True until all nodes have said what they have copied, or their time is over; `next` is called
// then. All ranks have ended.
bool JobSupervisor::stages_out_before(void (JobSupervisor::*next)()) {
    if (stage_out_ == nullptr || staged_out_ || begun_generation_ < 0)
        return false;
    if (stage_out_->is_in_round())
        return true;
    const RestartAction action = next_ ? next_->action : RestartAction::stop;
    const ExitDecision decision = decide_exit(ended_by_ ? &*ended_by_ : nullptr, action);
    stage_out_->begin_round({.generation = begun_generation_,
                             .end = decision.code == exit_code::kSuccess ? OutEnd::succeeded
                                    : action == RestartAction::requeue   ? OutEnd::requeued
                                                                         : OutEnd::failed,
                             .within = time_to_stage_out(),
                             .nodes = nodes_to_stage_out(),
                             .report = [this](Happening what) { report(std::move(what)); },
                             .then =
                                 [this, next] {
                                     staged_out_ = true;
                                     (this->*next)();
                                 }});
    for (const int node : lost_nodes_)
        if (had_ranks_.contains(node))
            stage_out_->leave_lost(name_of(node));
    return true;
}

// Until the scheduler kills all; where nobody does, as long as the spec lets it.
milliseconds JobSupervisor::time_to_stage_out() const {
    milliseconds within = plan_.spec.storage.timeout;
    const auto kill_wait =
        std::chrono::duration_cast<milliseconds>(plan_.kill_wait.value_or(std::chrono::seconds(0)));
    const bool is_killed = stop_asked_at_ && stop_signal_ && has_scheduler() &&
                           stopped_early_.empty() && !sent_by_a_person(*stop_signal_);
    if (is_killed && (time_limit_in_ || kill_wait.count() > 0)) {
        const auto left = time_limit_in_                   ? *time_limit_in_ + kill_wait
                          : why_asked_ && why_asked_->left ? *why_asked_->left
                                                           : kill_wait;
        within = std::min(
            within, elapsed_between(steady_clock::now(), *stop_asked_at_ + grace_within(left)));
    } else if (const auto left = stop_planner_.time_left()) {
        within = std::min(within, std::max(milliseconds(0), milliseconds(*left) + kill_wait -
                                                                milliseconds(kToTell)));
    }
    return within;
}

std::map<int, std::string> JobSupervisor::nodes_to_stage_out() const {
    std::map<int, std::string> nodes;
    for (std::size_t at = 0; at < roster_.nodes.size(); ++at)
        if (roster_.nodes[at].ranks > 0 && !lost_nodes_.contains(static_cast<int>(at)))
            nodes.emplace(static_cast<int>(at), roster_.nodes[at].name);
    return nodes;
}

// A person has seen that the ranks have ended: the first signal leaves the time that a stop has,
// the second none.
void JobSupervisor::hurry_stage_out(int signal) {
    const bool is_person = sent_by_a_person(signal);
    milliseconds within = plan_.spec.restart.grace_period;
    if (!is_person && plan_.kill_wait)
        within = grace_within(*plan_.kill_wait);
    if (++hurries_ > static_cast<int>(nodes_to_stage_out().size()))
        within = milliseconds(0);
    stage_out_->hurry(within);
}

ExitDecision JobSupervisor::judge_stage_out(ExitDecision decision) const {
    if (stage_out_ == nullptr || stage_out_->failures().empty() ||
        decision.code != exit_code::kSuccess)
        return decision;
    return {stage_out_->failures().front().exit_code,
            decision.outcome + ", but not all that it wrote was copied out"};
}

}  // namespace autolaunch::launcher
