#include "restart_policy/node_limits.hpp"
#include "supervise/job_supervisor.hpp"

#include "base/deadline.hpp"
#include "base/text.hpp"
#include "causes/rank_end.hpp"
#include "causes/root_cause.hpp"
#include "causes/start_words.hpp"
#include "causes/stop_cause.hpp"
#include "exit_codes/exit_codes.hpp"
#include "supervise/failure_announcement.hpp"
#include "supervise/job_announcement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <system_error>
#include <utility>

// What nodes report, as events of the job table. What the table then asks for: job_supervisor.cpp.

namespace autolaunch::launcher {

namespace {

using std::chrono::steady_clock;

// What ends a whole step does not reach all its nodes at once: some ms, more of a busy controller.
constexpr auto kSettleTime = std::chrono::milliseconds(1500);
// A rank that lost its peer, or gave up waiting for one, does not know why. Before the others are
// stopped they may say it themselves: a peer that ends closes its connections first, and of those
// that waited together the last gives up a moment after the first.
constexpr auto kPeerTime = std::chrono::milliseconds(250);
constexpr auto kWaitersTime = std::chrono::seconds(5);
constexpr char kKeeperKilledReason[] = "autolaunch was killed there; its agent ends the ranks";

}  // namespace

// Slurm sends SIGTERM when a preemption is announced, and again when its grace time is over; then
// KillWait begins.
bool JobSupervisor::is_schedulers_last_term(int signal, bool again) const {
    return again && signal == SIGTERM && stop_signal_ == SIGTERM && plan_.kill_wait &&
           !plan_.slurm_job_id.empty() && state_ == JobState::stopping;
}

void JobSupervisor::on_report(int node, control::Report&& report) {
    if (proposing_)
        return until_begun_.push_back([this, node, report = std::move(report)]() mutable {
            on_report(node, std::move(report));
        });
    const bool is_copying = stage_out_ != nullptr && stage_out_->is_in_round() && !staged_out_;
    if (const auto* asked = std::get_if<control::StopAsked>(&report); asked && is_copying)
        return hurry_stage_out(asked->signal);
    if (state_ == JobState::finished && !std::holds_alternative<control::NodeWarning>(report))
        return;
    std::visit([&](auto& what) { on(node, std::move(what)); }, report);
    end_generation_if_over();
}

void JobSupervisor::on(int node, control::GenerationRunning&& running) {
    if (!is_current(running.generation))
        return;
    tally_->running(node, running, steady_clock::now());
    if (!tally_->all_running())
        return;
    report(GenerationStarted{.generation = generation_number_,
                             .startup = elapsed_since(tally_->begun()),
                             .ranks_bound = tally_->ranks_bound(),
                             .numa_nodes = tally_->numa_nodes(),
                             .gpus = tally_->gpus()});
    stop_planner_.ranks_run();
    dispatch(JobEvent::started);
    if (state_ == JobState::running)
        stragglers_.begin_generation(generation_number_);
    if (state_ == JobState::running && !renewal_.empty())
        renew(std::string(renewal_));
}

void JobSupervisor::on(int node, control::StartFailed&& failed) {
    if (!is_current(failed.generation))
        return;
    const std::string what =
        roster_.nodes.size() > 1 ? name_of(node) + ": " + failed.what : failed.what;
    if (state_ == JobState::starting || state_ == JobState::running)
        return cannot_start(failed.rank, failed.exit_code, what, failed.hint, failed.restart_helps);
    if (state_ != JobState::stopping)
        warn(node, "its ranks could not be started either: " + failed.what);
}

void JobSupervisor::cannot_start(int rank, int exit_code, const std::string& what,
                                 const std::string& hint, bool restart_helps) {
    const bool while_running = state_ == JobState::running;
    ended_by_ = judge_start({.rank = rank,
                             .exit_code = exit_code,
                             .node = {},
                             .what = what,
                             .hint = hint,
                             .restart_helps = restart_helps,
                             .while_running = while_running});
    report(SpawnFailed{.rank = rank,
                       .what = what,
                       .hint = hint,
                       .cause = ended_by_->cause,
                       .while_running = while_running});
    failed_at_ = steady_clock::now();
    stop_reason_ = while_running ? "data that ranks run on does not come"
                                 : "rank " + std::to_string(rank) + " could not be started";
    dispatch(event_of(*ended_by_));
}

// The table stops the others for the first failure; a later report may still name an earlier one.
void JobSupervisor::on(int node, control::RankFailed&& failed) {
    if (!is_current(failed.generation) || state_ == JobState::stopping)
        return;
    const bool first = !tally_->first_failure();
    const EndRecord heard = failed.record;
    tally_->failed(node, std::move(failed), steady_clock::now());
    failed_at_ = tally_->first_failure()->at;
    const bool is_known = !heard.follows && heard.cause != Cause::collective_timeout;
    if (first && !is_known && roster_.world_size() > 1) {
        awaits_others_ = true;
        peer_timer_.expires_after(heard.follows ? kPeerTime : kWaitersTime);
        peer_timer_.async_wait([this](const std::error_code& error) {
            if (!error && awaits_others_)
                act_on_failure();
        });
    } else if (first || (awaits_others_ && is_known)) {
        act_on_failure();
    }
}

void JobSupervisor::act_on_failure() {
    awaits_others_ = false;
    peer_timer_.cancel();
    stop_reason_ = "rank " + std::to_string(tally_->first_failure()->what.end.rank) + " failed";
    const EndRecord& record = tally_->first_failure()->what.record;
    const JobEvent event = event_of(record);
    if (record.cause == Cause::killed && event == JobEvent::rank_failed_for_good)
        settled_at_ = steady_clock::now() + kSettleTime;
    dispatch(event);
}

void JobSupervisor::on(int node, control::RanksEnded&& ended) {
    if (!is_current(ended.generation))
        return;
    if (!tally_->first_failure())  // nobody failed before the stop
        ended.failures.clear();
    tally_->ended(node, std::move(ended), steady_clock::now());
}

// The node is well, and was heard of here meanwhile: only it knew of the silence. Without its ranks
// the others would wait forever.
void JobSupervisor::on(int node, control::RanksGivenUp&& given_up) {
    const bool goes_on = state_ == JobState::starting || state_ == JobState::running;
    if (!is_current(given_up.generation) || !goes_on)
        return;
    ranks_given_up_ = true;
    ended_by_ = judge_ranks_given_up(name_of(node), given_up.why);
    failed_at_ = steady_clock::now();
    stop_reason_ = ended_by_->what;
    dispatch(event_of(*ended_by_));
}

// A scheduler signals all agents alike: only a node that has said it before says it again.
void JobSupervisor::on(int node, control::StopAsked&& asked) {
    if (asked.signal == control::kParentGone && !stop_signal_) {  // the ranks may save
        unseen_node_ = node;
        return lose(node, JobEvent::stop_asked, kParentGoneReason);
    }
    if (asked.signal == SIGKILL) {  // its agent kills its ranks, and leaves
        if (node != roster_.self)
            return lose(node, JobEvent::node_lost, kKeeperKilledReason);
        if (!is_ended_from_outside() || why_lost_ == kKeeperKilledReason)
            keeper_gone_of_ = node;  // who has killed them all means the job
        settled_at_ = steady_clock::now() + kSettleTime;
        return dispatch(JobEvent::keeper_gone);
    }
    const bool again = !asked_to_stop_.insert(node).second;
    if (!is_ended_from_outside())
        stop_signal_ = asked.signal, time_left_at_stop_ = stop_planner_.time_left();
    stop_planner_.stop_asked();
    if (is_schedulers_last_term(asked.signal, again)) {
        const auto most = stop_planner_.grace_within(*plan_.kill_wait);
        return most < until_kill() ? order_stop(true, signal_name(SIGTERM), most) : void();
    }
    dispatch(again ? JobEvent::stop_asked_again : JobEvent::stop_asked);
}

void JobSupervisor::on(int node, control::NodeWarning&& warning) { warn(node, warning.text); }

void JobSupervisor::on(int, control::FlightAsked&&) {
    if (tally_)
        flight_.asked();
}

void JobSupervisor::on(int node, control::FlightRead&& read) {
    flight_.heard(node, std::move(read));
}

void JobSupervisor::on(int node, control::StepsOverdue&& overdue) {
    if (state_ == JobState::running)
        standstill_.overdue(node, overdue);
}

void JobSupervisor::on(int node, control::StepsAgain&& again) { standstill_.again(node, again); }

void JobSupervisor::on(int node, control::ActivityRead&& read) {
    read.request < 0 ? stragglers_.heard(read) : standstill_.heard(node, std::move(read));
}

void JobSupervisor::on(int node, control::StacksWritten&& written) {
    if (is_current(written.generation))
        report(StacksShown{.rank = written.rank,
                           .node = roster_.nodes.size() > 1 ? name_of(node) : std::string(),
                           .path = written.path,
                           .problem = written.problem});
    const bool is_new = std::find(stacks_.begin(), stacks_.end(), written.path) == stacks_.end();
    if (!written.path.empty() && is_new)  // a job that stands still again has them written again
        stacks_.push_back(written.path);
    standstill_.heard(written);
}

// As a failure: all ranks are stopped, and the policy of its cause decides what follows.
void JobSupervisor::on_hang(const StandstillNoticed& found) {
    if (state_ != JobState::running)
        return;
    hang_ = announce_hang(found, roster_, plan_.spec);
    ended_by_ = hang_->record;
    failed_at_ = steady_clock::now();
    stop_reason_ = "the job stands still";
    dispatch(event_of(*ended_by_));
}

// All ranks are stopped as after a loss, so that those that save on SIGTERM lose no step. A rank
// that is slow on a second node is slow by what it does.
void JobSupervisor::on_straggler(int rank, const std::string& what) {
    if (state_ != JobState::running)
        return;
    const int node = roster_.node_of(rank);
    if (node < 0)
        return;
    const EndRecord record = judge_straggler(rank, name_of(node), what);
    const Decision decision = decide_on(record);
    const auto before = slow_on_.find(rank);
    std::string why = decision.action == RestartAction::restart ? "" : decision.why;
    if (before != slow_on_.end() && before->second != name_of(node))
        why = fmt::format("it was slow on {}, too, so it is its own work, and no node's fault",
                          before->second);
    else if (node == roster_.self)
        why = "that is the head's own node, which must stay";
    else if (!members_.can_do_without(node))
        why = "no other node is there, and the job needs all it has";
    if (!why.empty()) {
        if (not_replaced_.insert(rank).second && why_no_replacement(plan_.spec).empty())
            report(WarningRaised{fmt::format("rank {} stays on {}, although {}: {}", rank,
                                             name_of(node), what, why)});
        return;
    }
    slow_on_[rank] = name_of(node);
    report(WarningRaised{fmt::format("rank {} on {} is replaced (restart {}): {}", rank,
                                     name_of(node), decision.account, what)});
    ended_by_ = record;
    failed_at_ = steady_clock::now();
    stop_reason_ = fmt::format("another node takes the place of {}", name_of(node));
    dispatch(JobEvent::rank_failed);
}

void JobSupervisor::on(int, control::InputSpent&&) { input_spent_ = true; }

// The head's own word counts for one node, as it may have slept itself.
void JobSupervisor::on(int, control::Overslept&& slept) {
    if (!is_current(slept.generation))
        return;
    here_.clear();
    head_.command(
        control::AskWhoIsHere{.generation = generation_number_, .request = ++who_is_here_});
}

void JobSupervisor::on(int node, control::Here&& here) {
    if (!is_current(here.generation) || here.request != who_is_here_)
        return;
    if (members_.takes_part(node))
        here_.insert(node);
    if (2 * here_.size() > static_cast<std::size_t>(roster_.taking_part()))
        head_.command(control::GoOn{generation_number_});
}

void JobSupervisor::on_node_lost(int node, const std::string& why) {
    if (proposing_)  // of a generation that has not begun nobody can be lost
        return until_begun_.push_back([this, node, why] { on_node_lost(node, why); });
    missing_.erase(node);
    lost_nodes_.insert(node);
    if (state_ == JobState::finished) {
        if (stage_out_ != nullptr)
            stage_out_->lose(node, name_of(node));
        return;
    }
    if (quorum_ != nullptr)
        quorum_->dismiss(node);
    if (tally_)
        tally_->lost(node);
    if (store_.relays)
        store_.relays->forget(node);
    flight_.node_lost(node);
    standstill_.node_lost(node);
    if (unchecked_.erase(node) > 0 && unchecked_.empty())
        end_check();
    lose(node, JobEvent::node_lost, why);
    end_generation_if_over();
}

// Its agent may still be there, and end its ranks as told.
void JobSupervisor::lose(int node, JobEvent event, const std::string& why) {
    if (event == JobEvent::node_lost)
        lost_nodes_.insert(node);
    const bool was_wanted = members_.is_fit(node);
    const bool was_arriving = members_.standing(node) == Membership::Standing::arriving;
    if (!members_.lose(node))
        return;
    if (was_arriving)
        return report(WarningRaised{name_of(node) + " had come, and is gone: " + why});
    restart_book_.remember_lost(name_of(node));
    if (!members_.is_missed(node))  // one that waited, and that nobody waits for
        return was_wanted ? report_lost_spare(node, why) : void();
    if (!was_wanted && tally_ == std::nullopt)
        return;
    settled_at_ = steady_clock::now() + kSettleTime;
    lost_.push_back(announce_lost(roster_, node, why, elapsed_since(started_at_)));
    if (event == JobEvent::node_lost && goes_on_without(node))
        event = miss(node, why);
    else if (!is_ended_from_outside())
        lost_node_ = name_of(node), why_lost_ = why;
    if (!tally_ || !tally_->first_failure())
        failed_at_ = steady_clock::now();
    stop_reason_ = name_of(node) + " was lost";
    if (!tally_)
        report_lost();
    dispatch(event);
}

// Ranks that fail of the loss end a generation, too: which of the two is heard of first is chance.
bool JobSupervisor::goes_on_without(int node) const {
    return !is_ended_from_outside() && state_ != JobState::stopping &&
           members_.can_do_without(node);
}

void JobSupervisor::report_lost_spare(int node, const std::string& why) {
    const int left = members_.spares_left();
    report(WarningRaised{fmt::format("the spare {} was lost: {}; {} left", name_of(node), why,
                                     left > 0 ? std::to_string(left) : "no other is")});
}

// An agent that is cut off from the head ends its ranks by itself, after the same silence by which
// the head has found it lost.
JobEvent JobSupervisor::miss(int node, const std::string& why) {
    missed_node_ = name_of(node);
    why_missed_ = why;
    fenced_at_ = std::max(fenced_at_, steady_clock::now() + fence_of(node));
    if (state_ == JobState::waiting)
        wait_then(std::max(elapsed_between(steady_clock::now(), timer_.expiry()),
                           elapsed_between(steady_clock::now(), fenced_at_)),
                  JobEvent::wait_over);
    return JobEvent::node_missed;
}

}  // namespace autolaunch::launcher
