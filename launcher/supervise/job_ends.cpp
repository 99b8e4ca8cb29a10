#include "supervise/job_supervisor.hpp"

#include "base/deadline.hpp"
#include "causes/root_cause.hpp"
#include "causes/stop_cause.hpp"
#include "restart_policy/hang_limit.hpp"
#include "supervise/failure_announcement.hpp"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <system_error>
#include <utility>

// Why a generation ended, what follows from it, and how that is told.

namespace autolaunch::launcher {

namespace {

using std::chrono::steady_clock;

constexpr char kBeforeTheLimit[] = "stopped before the time limit";

// The scheduler's word; a signal alone says nothing.
std::optional<Cause> cause_of(StopOrigin origin) {
    switch (origin) {
        case StopOrigin::preempted:
        case StopOrigin::requeued:  // by a preemption, or by somebody: it starts again either way
            return Cause::preempted;
        case StopOrigin::time_limit:
            return Cause::time_limit;
        case StopOrigin::cancelled:
            return Cause::cancelled;
        case StopOrigin::unknown:
        case StopOrigin::signalled:
            break;
    }
    return std::nullopt;
}

}  // namespace

// What follows if this is the failure that counts; that is known when all ranks have ended.
JobEvent JobSupervisor::event_of(const EndRecord& record) const {
    return decide_on(record).action == RestartAction::restart ? JobEvent::rank_failed
                                                              : JobEvent::rank_failed_for_good;
}

Decision JobSupervisor::decide_on(const EndRecord& record) const {
    Situation situation{
        .record = record,
        .generation = generation_number_,
        .now = std::chrono::system_clock::now(),
        .step = record.step,
        .has_saved = (tally_ ? tally_->checkpoint_step() : checkpoint_step_).has_value(),
        .ran = tally_ ? elapsed_since(tally_->begun()) : std::chrono::milliseconds(0),
        .input_spent = input_spent_,
        // Not after another loss, in the same end, that leaves too few.
        .enough_nodes =
            lost_node_.empty() &&
            (record.cause == Cause::node_lost ? !missed_node_.empty()
                                              : record.cause == Cause::network && ranks_given_up_),
        .others_suffice = members_.can_do_without(record.node)};
    if (tally_)
        for (const RankExited& end : tally_->ends_but(std::nullopt))
            if (end.last_step && (!situation.step || *situation.step < *end.last_step))
                situation.step = end.last_step;
    return restart_book_.decide(situation);
}

// A stop or a lost node that came meanwhile comes instead of the restart: see
// report_end_before_start().
void JobSupervisor::settle(const EndRecord& record) {
    ended_by_ = hung_ ? with_processes_left(record) : record;
    next_ = decide_on(*ended_by_);
    // The ranks were stopped for it alone: where no other node is left by now, they go on there.
    if (is_replacing() && next_->action != RestartAction::restart && ended_by_->vain.empty()) {
        report(WarningRaised{ended_by_->node + " is not left out: " + next_->why});
        next_->action = next_->end.action = RestartAction::restart;
        next_->end.elsewhere = false;
    }
    const bool restart = next_->action == RestartAction::restart;
    if (!restart)
        dispatch(JobEvent::no_restart);
    else if (!is_ended_from_outside())
        dispatch(JobEvent::restart_after_all);
}

void JobSupervisor::report_hang() {
    const auto ends = tally_->ends_but(std::nullopt);
    hang_->record = *ended_by_;
    hang_->stacks = stacks_;
    hang_->stopped = static_cast<int>(ends.size());
    hang_->stopped_in = elapsed_between(failed_at_, tally_->last_end());
    hang_->checkpoint_step = checkpoint_step_;
    if (state_ == JobState::restarting)
        hang_->restart_number = restarts_ + 1;
    hang_->restart_account = next_->account;
    hang_->restart_delay = next_->delay;
    hang_->no_restart = next_->why;
    if (next_->action == RestartAction::restart && !hang_->restart_number)
        hang_->no_restart = lost_node_.empty() ? "the job was stopped first" : stop_reason_;
    report(*hang_);
}

void JobSupervisor::end_generation_if_over() {
    if (!tally_ || !tally_->all_ended() || settles_before(&JobSupervisor::end_generation_if_over))
        return;
    if (awaits_others_)
        act_on_failure();
    end_generation();
    dispatch(JobEvent::all_ended);
}

// Whoever has killed an agent or a rank may be ending the whole job, and us next: a record of the
// end, a requeue and an exit code would be untrue then. Nobody hurries: all ranks have ended.
bool JobSupervisor::settles_before(void (JobSupervisor::*next)()) {
    const auto left = elapsed_between(steady_clock::now(), settled_at_);
    if (!has_scheduler() || left.count() == 0)
        return false;
    timer_.cancel();
    settle_timer_.expires_after(left);
    settle_timer_.async_wait([this, next](const std::error_code& error) {
        if (!error)
            (this->*next)();
    });
    return true;
}

void JobSupervisor::end_generation() {
    if (!tally_)
        return;
    timer_.cancel();
    if (const auto step = tally_->checkpoint_step()) {
        checkpoint_step_ = step;
        keep(restart_book_.note_checkpoint(*step));
    }
    show_warnings();
    report_lost();
    if (ended_by_)  // a rank could not be started, or the job stood still
        settle(*ended_by_);
    const std::string replaced =
        is_replacing() && next_->end.elsewhere ? ended_by_->node : std::string();
    if (hang_)
        report_hang();
    else if (tally_->first_failure())
        report_failure();
    // A lost node takes its ranks along, and theirs; else a failure came before a stop.
    if (!lost_node_.empty() || !missed_node_.empty() || !ended_by_)
        if (const auto record = judge_from_outside(true))
            settle(*record);
    if (!replaced.empty() && !is_replacing())  // it is looked at again in the next generation
        report(WarningRaised{replaced + " is not left out yet: " + stop_reason_ + " meanwhile"});
    report_end();
    tally_.reset();
    if (next_ ? next_->action == RestartAction::restart : renewing_)
        ++generation_number_;
}

void JobSupervisor::report_end() {
    GenerationEnded ended{.record = ended_by_};
    if (ended_by_) {
        ended.next = launcher::name_of(next_->action);
        if (next_->action == RestartAction::restart)
            ++restarts_by_cause_[std::string(launcher::name_of(ended_by_->cause))];
        if (next_->action != RestartAction::restart)
            ended.exit_code = decide_exit(&*ended_by_, next_->action).code;
        // Where there is somebody who would.
        if (next_->action == RestartAction::stop && has_scheduler())
            ended.no_requeue = ended_by_->no_requeue;
        note_end();
    }
    if (!ended_by_ && renewing_)
        ended.next = "renew";
    report(std::move(ended));
}

// For the generations and requeues that follow.
void JobSupervisor::note_end() {
    if (!wants_restarts(plan_.spec.restart) && next_->action == RestartAction::stop)
        return;
    keep(restart_book_.note(*next_));
}

// The first of this start at once: the head may not live to see the generation's end.
void JobSupervisor::note_checkpoint(std::int64_t step) {
    if (!std::exchange(has_noted_checkpoint_, true))
        keep(restart_book_.note_checkpoint(step));
}

// `lost`: why it could not be.
void JobSupervisor::keep(const std::string& lost) {
    if (!lost.empty())
        report(WarningRaised{lost});
}

// A restart was decided, and something else came before it: that ended the generation which was
// to be the next.
void JobSupervisor::report_end_before_start() {
    if (!next_ || next_->action != RestartAction::restart)
        return;
    if (const auto record = judge_from_outside(false)) {
        settle(*record);
        report_end();
    }
}

// A generation that had not been started has no ranks that ended badly.
std::optional<EndRecord> JobSupervisor::judge_from_outside(bool started) {
    if (keeper_gone_of_)
        return judge_agent_killed(roster_.nodes.size() > 1 ? name_of(*keeper_gone_of_) : "");
    if (!lost_node_.empty())
        return judge_lost_node(lost_node_, why_lost_, has_checkpoint());
    if (stop_signal_)
        return judge_this_stop(!started || tally_->every_rank_exited_zero());
    if (!missed_node_.empty())
        return judge_lost_node(missed_node_, why_missed_, has_checkpoint());
    return std::nullopt;
}

EndRecord JobSupervisor::judge_this_stop(bool all_ended_well) {
    stop_planner_.stop();  // no generation follows; the scheduler's word may still be on its way
    if (!stopped_early_.empty())
        return judge_early_stop(stopped_early_);
    AskedToStop stop{.signal = *stop_signal_,
                     .under_scheduler = !plan_.slurm_job_id.empty(),
                     .left = time_left_at_stop_,
                     .all_ended_well = all_ended_well,
                     .has_checkpoint = has_checkpoint()};
    if (time_limit_in_)
        stop.told = Cause::time_limit, stop.told_by = stop.outcome = kBeforeTheLimit;
    else if (why_asked_)
        stop.told = cause_of(why_asked_->origin), stop.told_by = why_asked_->evidence,
        stop.told_for_sure = why_asked_->origin != StopOrigin::requeued;
    return judge_stop(stop);
}

void JobSupervisor::report_lost() {
    for (NodeLost& lost : lost_) {
        if (tally_) {
            const auto ends = tally_->ends_but(std::nullopt);
            lost.stopped = static_cast<int>(std::count_if(
                ends.begin(), ends.end(), [](const RankExited& end) { return end.asked_to_stop; }));
            lost.stopped_others_in = elapsed_between(failed_at_, tally_->last_end());
            FlightFindings found = flight_.take_failure(lost.node + " was lost");
            lost.goes_on = lost_node_.empty() && !missed_node_.empty();
            lost.flight = std::move(found.lines);
            lost.flight_path = std::move(found.path);
        }
        report(std::move(lost));
    }
    lost_.clear();
}

void JobSupervisor::report_failure() {
    GenerationVerdict verdict = judge_generation(*tally_, roster_, flight_, roster_.world_size());
    if (!ended_by_) {  // else a rank could not be started, before that
        settle(verdict.record);
        verdict.record = *ended_by_;
    }
    GenerationFailed failed = announce_failure(*tally_, std::move(verdict));
    failed.stopped_others_in = elapsed_between(failed_at_, tally_->last_end());
    if (state_ == JobState::restarting)
        failed.restart_number = restarts_ + 1;
    failed.max_restarts = plan_.spec.restart.max_restarts;
    failed.checkpoint_step = checkpoint_step_;
    failed.restart_held_back =
        !failed.restart_number && !failed.record.vain.empty() && wants_restarts(plan_.spec.restart);
    failed.input_spent = input_spent_ && wants_restarts(plan_.spec.restart);
    failed.restart_account = next_->account;
    failed.restart_delay = next_->delay;
    failed.no_restart = next_->why;
    if (next_->action == RestartAction::restart && !failed.restart_number)
        failed.no_restart = lost_node_.empty() ? "the job was stopped first" : stop_reason_;
    report(std::move(failed));
}

}  // namespace autolaunch::launcher
