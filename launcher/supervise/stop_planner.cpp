#include "supervise/stop_planner.hpp"

#include "allocation/kill_wait.hpp"
#include "report/units.hpp"
#include "stopping/scontrol_line.hpp"
#include "supervise/job_announcement.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <csignal>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

constexpr milliseconds kConfirmTime = 3s;   // at the last moment there is little time
constexpr milliseconds kExplainTime = 10s;  // a busy slurmctld; the ranks stop meanwhile
constexpr milliseconds kAskAgain = 500ms;
constexpr int kMostQuestions = 6;           // together within the least that KillWait usually is
constexpr milliseconds kLastWordTime = 1s;  // the ranks have stopped, and who asked is not known
constexpr milliseconds kRecordPause = 1s;   // between two writes of the saves' times
constexpr milliseconds kChange = 10s;       // less is rounding
constexpr milliseconds kBeforeMaintenance = 60s;

StopTimes::Killer killer_of(const LaunchPlan& plan) {
    if (!plan.slurm_job_id.empty())
        return StopTimes::Killer::slurm;
    if (plan.scheduler == "kubernetes" || plan.scheduler == "volcano")
        return StopTimes::Killer::kubernetes;
    return plan.kill_wait ? StopTimes::Killer::other : StopTimes::Killer::nobody;
}

}  // namespace

StopPlanner::StopPlanner(asio::io_context& io, const LaunchPlan& plan, StopFacts& facts,
                         Callbacks callbacks)
    : plan_(plan),
      facts_(facts),
      callbacks_(std::move(callbacks)),
      end_time_(io, plan, [this](const JobTimes& times) { on_times(times); }),
      inquiry_(io, plan.slurm_job_id,
               {.waited =
                    [this](std::chrono::seconds waited) {
                        callbacks_.report(QueueTimeKnown{.waited = waited});
                    },
                .over_time = [this](std::chrono::minutes over) { on_over_time(over); }}),
      moment_(io),
      wait_(io),
      reservations_wait_(io),
      before_maintenance_(io),
      reserved_(plan.spec.storage.stage_out_time) {
    facts_.on_save = [this] { on_save(); };
}

StopTimes StopPlanner::times() const {
    return {.save = facts_.saves.p99(),
            .saves = facts_.saves.count(),
            .grace_period = plan_.spec.restart.grace_period,
            .kill_wait = plan_.kill_wait,
            .copies = reserved_,
            .killer = killer_of(plan_)};
}

milliseconds StopPlanner::grace_after(int signal) const {
    if (signal == SIGTERM && plan_.kill_wait)
        return grace_within(*plan_.kill_wait);
    return grace_wanted(times());
}

milliseconds StopPlanner::grace_within(milliseconds left) const {
    return ranks_within(times(), left);
}

std::optional<std::chrono::seconds> StopPlanner::time_left() const {
    if (!ends_at_)
        return std::nullopt;
    return std::chrono::round<std::chrono::seconds>(*ends_at_ - system_clock::now());
}

void StopPlanner::say_budget() {
    const StopTimes known = times();
    const std::string warning = budget_warning(known), note = budget_note(known);
    const std::string& text = warning.empty() ? note : warning;
    if (text.empty() || !std::exchange(budget_said_, text).empty())
        return;
    callbacks_.report(StopBudgetKnown{
        .save = known.save, .saves = known.saves, .fits = warning.empty(), .text = text});
}

// Of a job that has saved before it was said at the start; else at its first save, if it is bad.
void StopPlanner::on_save() {
    if (budget_said_.empty() && !budget_warning(times()).empty())
        say_budget();
    const auto now = steady_clock::now();
    if (now - recorded_at_ >= kRecordPause) {
        recorded_at_ = now;
        record();
    }
    set_last_moment();
}

void StopPlanner::record() {
    try {
        if (!facts_.saves.is_empty())
            facts_.saves.write(plan_.run_dir);
    } catch (const Error& error) {
        if (!std::exchange(cannot_record_, true))
            callbacks_.report(
                WarningRaised{std::string("the times of saves are not recorded: ") + error.what()});
    }
}

// What was known until now was the limit alone.
void StopPlanner::on_over_time(std::chrono::minutes over) {
    over_time_ = over;
    if (over.count() == 0 || !ends_at_ || stopping_)
        return;
    *ends_at_ += over;
    callbacks_.report(announce_change(ends_at_, over));
    set_last_moment();
}

void StopPlanner::on_times(JobTimes times) {
    if (times.ends_at)
        *times.ends_at += over_time_;
    const bool changed = times.answered && told_limit_ &&
                         (times.ends_at.has_value() != ends_at_.has_value() ||
                          (ends_at_ && (*times.ends_at - *ends_at_ >= kChange ||
                                        *ends_at_ - *times.ends_at >= kChange)));
    if (times.answered)
        ends_at_ = times.ends_at;
    if (!std::exchange(told_limit_, true))
        for (Happening& known : announce_times(plan_, times))
            callbacks_.report(std::move(known));
    if (times.answered && !std::exchange(compared_reserve_, true))
        compare_reserve();
    if (changed)
        callbacks_.report(announce_change(ends_at_, over_time_));
    look_for_maintenance();
    if (!std::exchange(confirming_, false))
        return set_last_moment();
    const auto moment = last_moment();
    const auto now = system_clock::now();
    if (!moment || *moment > now + 1s)
        return set_last_moment();
    const bool can_stop = facts_.ranks_can_stop && facts_.ranks_can_stop();
    if (!can_stop && reserved_.count() == 0)
        return;  // who does not save when it is asked would lose by it: Slurm's own stop will do
    callbacks_.last_moment(
        std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(*ends_at_ - now)));
}

// Who has never saved would lose by it, but for copies that the user wants time for.
std::optional<system_clock::time_point> StopPlanner::last_moment() const {
    const StopTimes known = times();
    if (!ends_at_ || (!known.save && known.copies.count() == 0))
        return std::nullopt;
    return *ends_at_ - last_moment_before_end(known, facts_.pace.longest());
}

// Where the job has not so much time at all, ranks would be asked to stop as soon as they run.
void StopPlanner::compare_reserve() {
    const auto moment = last_moment();
    const auto now = system_clock::now();
    if (reserved_.count() == 0 || !moment || *moment > now)
        return;
    const auto left =
        std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(*ends_at_ - now));
    callbacks_.report(WarningRaised{"storage.stage_out_time is " + format_duration(reserved_) +
                                    ", and the job ends in " + format_duration(left) +
                                    ": no time is kept for copies; give the job a longer time "
                                    "limit (slurm_config.time_limit)"});
    reserved_ = milliseconds(0);
}

void StopPlanner::set_last_moment() {
    const auto moment = last_moment();
    if (stopping_ || confirming_ || !moment)
        return;
    const auto left = std::chrono::duration_cast<milliseconds>(*moment - system_clock::now());
    moment_.expires_after(std::max(milliseconds(0), left));
    moment_.async_wait([this](const std::error_code& cancelled) {
        if (cancelled || stopping_)
            return;
        confirming_ = true;
        end_time_.look_now(kConfirmTime);
    });
}

void StopPlanner::look_for_maintenance() {
    if (plan_.slurm_job_id.empty() || stopping_ || reservations_wait_.under_way())
        return;
    reservations_.emplace(maintenance_question());
    reservations_wait_.begin(
        reservations_->fd(), [this] { return reservations_->advance(); }, kExplainTime,
        [this](bool) {
            const std::string answer = reservations_->answer();
            reservations_.reset();
            take_maintenance(answer);
        });
}

// Slurm lets the job go on; whoever maintains the node may not.
void StopPlanner::take_maintenance(const std::string& answer) {
    const auto now = system_clock::now();
    const auto next = next_maintenance(answer, plan_.node_names, now);
    if (!next || next == maintenance_ || stopping_)
        return;
    maintenance_ = next;
    const StopTimes save_alone{.save = facts_.saves.p99().value_or(milliseconds(0))};
    const auto need =
        last_moment_before_end(save_alone, facts_.pace.longest()) + kBeforeMaintenance;
    const auto at = std::max(now, next->starts_at - need);
    callbacks_.report(WarningRaised{"a maintenance of " + next->node + " begins at " +
                                    clock_text(next->starts_at) + " (reservation " + next->name +
                                    "): a checkpoint is asked for at " + clock_text(at)});
    before_maintenance_.expires_after(std::chrono::duration_cast<milliseconds>(at - now));
    before_maintenance_.async_wait([this](const std::error_code& cancelled) {
        if (!cancelled && facts_.ask_checkpoint)
            facts_.ask_checkpoint();
    });
}

void StopPlanner::stop_asked() {
    if (std::exchange(stopping_, true))
        return;
    confirming_ = false;
    moment_.cancel();
    before_maintenance_.cancel();
    end_time_.stop();
    inquiry_.stop();
    reservations_wait_.stop();
    reservations_.reset();
    if (!plan_.slurm_job_id.empty())
        ask_why();
}

void StopPlanner::ask_why() {
    question_.emplace(slurm_job_question(plan_.slurm_job_id));
    wait_.begin(
        question_->fd(), [this] { return question_->advance(); }, kExplainTime,
        [this](bool) { explain(); });
}

void StopPlanner::explain() {
    const auto record = parse_slurm_job(question_->answer(), plan_.slurm_job_id);
    question_.reset();
    early_.reset();
    if (!record)
        return callbacks_.explained({StopOrigin::unknown, "scontrol has not answered", {}});
    const auto kill_wait = plan_.kill_wait.value_or(kDefaultKillWait);
    const StopKnown known =
        explain_stop(*record, plan_.restart_count, system_clock::now(), kill_wait);
    // A preemption is announced before the end that it sets, which a busy slurmctld sets later.
    const bool is_early = known.origin == StopOrigin::preempted && record->state == "RUNNING" &&
                          known.left == kill_wait;
    if (!is_early || ++asked_ > kMostQuestions)
        return callbacks_.explained(known);
    early_ = known;
    moment_.expires_after(kAskAgain);
    moment_.async_wait([this](const std::error_code& cancelled) {
        if (!cancelled)
            ask_why();
    });
}

void StopPlanner::stop() {
    end_time_.stop();
    inquiry_.stop();
    moment_.cancel();
    before_maintenance_.cancel();
    reservations_wait_.stop();
    reservations_.reset();
    wait_.stop();
    asked_ = kMostQuestions;
    if (question_) {
        question_->wait(
            Deadline::after(std::min(kLastWordTime, plan_.spec.rendezvous.lost_after / 4)));
        explain();
    }
    if (early_)
        callbacks_.explained(*std::exchange(early_, {}));
    record();
}

}  // namespace autolaunch::launcher
