#include "supervise/job_supervisor.hpp"

#include "base/deadline.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "causes/rank_end.hpp"
#include "causes/stop_cause.hpp"
#include "exit_codes/exit_codes.hpp"
#include "report/units.hpp"
#include "restart_policy/hang_limit.hpp"
#include "restart_policy/node_limits.hpp"
#include "supervise/failure_announcement.hpp"
#include "supervise/job_announcement.hpp"
#include "supervise/stop_grace.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using std::chrono::steady_clock;

// Nodes name what hangs there after 30 s; then there is nothing to wait for.
constexpr auto kNodesKillTimeout = std::chrono::seconds(31);
constexpr auto kLeaveTimeout = std::chrono::seconds(5);
constexpr std::size_t kSecretBytes = 16;
constexpr char kBeforeTheLimit[] = "stopped before the time limit";
constexpr auto kLeastChange =
    std::chrono::milliseconds(500);  // of a stop's time, to tell the ranks
// What ends a whole step does not reach all its nodes at once: some ms, more of a busy controller.
constexpr auto kSettleTime = std::chrono::milliseconds(1500);
// A rank that lost its peer, or gave up waiting for one, does not know why. Before the others are
// stopped they may say it themselves: a peer that ends closes its connections first, and of those
// that waited together the last gives up a moment after the first.
constexpr auto kPeerTime = std::chrono::milliseconds(250);
constexpr auto kWaitersTime = std::chrono::seconds(5);
// What a node that was lost has beyond the time in which it must find out by itself.
constexpr std::chrono::milliseconds kFenceTime{1000};
constexpr auto kWarningDelay =
    std::chrono::milliseconds(100);  // equal warnings of other nodes come within it

std::chrono::milliseconds between(steady_clock::time_point start, steady_clock::time_point end) {
    return std::max(std::chrono::milliseconds(0),
                    std::chrono::duration_cast<std::chrono::milliseconds>(end - start));
}

std::chrono::milliseconds since(steady_clock::time_point start) {
    return between(start, steady_clock::now());
}

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

JobSupervisor::JobSupervisor(asio::io_context& io, const LaunchPlan& plan, Coordinator& coordinator,
                             const Joined& joined, Reporter& reporter, StopFacts& stop_facts,
                             int first_generation)
    : io_(io),
      plan_(plan),
      coordinator_(coordinator),
      joined_(joined),
      roster_(joined.roster),
      head_(*joined.head),
      reporter_(reporter),
      timer_(io),
      warning_timer_(io),
      settle_timer_(io),
      peer_timer_(io),
      stop_planner_(
          io, plan, stop_facts,
          {.report = [this](Happening what) { report(std::move(what)); },
           .last_moment = [this](std::chrono::milliseconds left) { on_last_moment(left); },
           .explained = [this](const StopKnown& known) { on_stop_explained(known); }}),
      flight_(
          io, head_, plan.run_dir,
          [this](const FlightFindings& found) {
              report(FlightShown{.reason = "SIGUSR2", .lines = found.lines, .path = found.path});
          }),
      standstill_(
          io, head_, flight_, hang_limit(plan.spec),
          [this](Happening what) { report(std::move(what)); },
          [this](const StandstillNoticed& found) { on_hang(found); }),
      stragglers_(io, plan, head_, flight_, [this](Happening what) { report(std::move(what)); }),
      generation_number_(first_generation),
      restart_book_(plan),
      warnings_(plan.warnings) {
    head_.set_handlers(
        {.on_report = [this](int node,
                             control::Report&& report) { on_report(node, std::move(report)); },
         .on_node_lost = [this](int node, const std::string& why) { on_node_lost(node, why); }});
}

void JobSupervisor::start(const JobOrigin& origin) {
    started_at_ = steady_clock::now();
    JobStarted announced = announce_job(plan_, joined_);
    announced.preparation = between(origin.began, started_at_);
    announced.requeue = origin.requeue;
    report(std::move(announced));
    stop_planner_.say_budget();
    start_generation();
}

void JobSupervisor::dispatch(JobEvent event) {
    if (awaits_others_)
        act_on_failure();
    const JobTransition next = transition(state_, event);
    state_ = next.next;
    if (state_ != JobState::running)
        standstill_.stop(), stragglers_.stop();
    act(next.action);
}

void JobSupervisor::act(JobAction action) {
    switch (action) {
        case JobAction::none:
            return;
        case JobAction::ask_ranks_to_stop:
            return stop_ranks(true, time_limit_in_ ? stop_reason_
                                    : stop_signal_ ? signal_name(*stop_signal_)
                                                   : stop_reason_);
        case JobAction::terminate_ranks:
            return stop_ranks(false, stop_reason_);
        case JobAction::kill_ranks:
            return kill_ranks();
        case JobAction::wait_to_restart:
            return wait_to_restart();
        case JobAction::start_generation:
            ++restarts_;
            return start_generation();
        case JobAction::finish:
            return finish();
        case JobAction::give_up:
            return give_up();
    }
}

void JobSupervisor::start_generation() {
    kill_sent_ = false;
    leave_out_lost_nodes();
    ended_by_.reset();
    next_.reset();
    hang_.reset();
    stacks_.clear();
    store_ = {};  // its port is free before the next one is taken
    flight_.begin_generation(generation_number_, static_cast<int>(roster_.nodes.size()),
                             roster_.world_size());
    standstill_.begin_generation(generation_number_, static_cast<int>(roster_.nodes.size()));
    for (const int node : gone_) {
        flight_.node_lost(node);
        standstill_.node_lost(node);
    }
    tally_.emplace(generation_number_, static_cast<int>(roster_.nodes.size()), steady_clock::now());
    for (const int node : given_up_)
        tally_->leave_out(node);
    try {
        store_ = coordinator_.open_store(io_, *joined_.member, generation_number_);
    } catch (const Error& error) {
        tally_->never_started();
        cannot_start(0, exit_code::kUnavailable, error.what(), error.hint(), false);
        return end_generation_if_over();
    }
    head_.command(control::StartGeneration{.generation = generation_number_,
                                           .master_address = store_.address,
                                           .master_port = store_.server->port(),
                                           .store_token = store_.token,
                                           .secret = random_hex(kSecretBytes),
                                           .ranks_per_node = roster_.ranks_per_node()});
}

// Of the generation that is about to begin.
void JobSupervisor::leave_out_lost_nodes() {
    missed_node_.clear();
    std::vector<std::string> without;
    for (const int node : given_up_) {
        roster_.nodes[static_cast<std::size_t>(node)].ranks = 0;
        without.push_back(name_of(node));
    }
    if (std::exchange(left_out_, without.size()) != without.size())
        report(WorldChanged{.nodes = roster_.taking_part(),
                            .world_size = roster_.world_size(),
                            .without = std::move(without)});
}

void JobSupervisor::stop_ranks(bool by_user, const std::string& reason) {
    if (!tally_ || tally_->all_ended())
        return;
    const int signal = by_user ? stop_signal_.value_or(SIGTERM) : 0;
    // At the time limit Slurm sends SIGTERM, and SIGKILL only then.
    const auto kill_wait = plan_.kill_wait.value_or(std::chrono::seconds(0));
    const auto grace = !by_user         ? plan_.spec.restart.grace_period
                       : time_limit_in_ ? stop_planner_.grace_within(*time_limit_in_ + kill_wait)
                                        : stop_planner_.grace_after(signal);
    if (by_user || roster_.world_size() > 1)
        report(
            StopRequested{.reason = reason,
                          .failed = !by_user,
                          .detection = by_user ? std::chrono::milliseconds(0) : since(failed_at_),
                          .grace = grace,
                          .can_hurry = by_user && signal == SIGINT});
    if (by_user && !time_limit_in_ && grace < plan_.spec.restart.grace_period)
        report(WarningRaised{shortened_notice(plan_, grace)});
    if (state_ != JobState::restarting || !missed_node_.empty())  // ranks get other numbers
        return order_stop(by_user, reason, grace);
    head_.command(control::LeaveGeneration{.generation = generation_number_,
                                           .reason = reason,
                                           .grace_ms = static_cast<std::uint64_t>(grace.count())});
    kill_in(grace);
}

void JobSupervisor::order_stop(bool by_user, const std::string& reason,
                               std::chrono::milliseconds grace) {
    head_.command(control::StopRanks{.generation = generation_number_,
                                     .by_user = by_user,
                                     .reason = reason,
                                     .signal = by_user ? stop_signal_.value_or(SIGTERM) : 0,
                                     .grace_ms = static_cast<std::uint64_t>(grace.count())});
    kill_in(grace);
}

void JobSupervisor::kill_in(std::chrono::milliseconds time) {
    kill_at_ = steady_clock::now() + time;
    wait_then(time, JobEvent::grace_over);
}

std::chrono::milliseconds JobSupervisor::until_kill() const {
    return between(steady_clock::now(), kill_at_);
}

// Asked by ourselves, before the allocation ends, as a scheduler would ask.
void JobSupervisor::on_last_moment(std::chrono::milliseconds left) {
    if (state_ != JobState::running && state_ != JobState::starting)
        return;
    time_limit_in_ = left;
    stop_signal_ = SIGTERM;
    stop_reason_ = "the time limit comes in " + format_duration(left) + ", and a save must fit in";
    dispatch(JobEvent::stop_asked);
}

// The first guess was what every SIGTERM leaves; Slurm may have told of more, or of less.
void JobSupervisor::on_stop_explained(const StopKnown& known) {
    const bool is_open = state_ == JobState::stopping && tally_ && !tally_->all_ended() &&
                         !kill_sent_ && !time_limit_in_;
    why_asked_ = known;
    auto grace = until_kill();
    if (is_open && known.origin != StopOrigin::unknown && stop_signal_ == SIGTERM) {
        const auto whole =
            known.left ? stop_planner_.grace_within(*known.left) : stop_planner_.grace_after(0);
        if (whole > grace + kLeastChange || whole + kLeastChange < grace) {
            grace = whole;
            order_stop(true, signal_name(SIGTERM), grace);
        }
    }
    report(StopExplained{.origin = origin_name(known.origin),
                         .evidence = known.evidence,
                         .left = known.left,
                         .grace = grace});
}

// Slurm sends SIGTERM when a preemption is announced, and again when its grace time is over; then
// KillWait begins.
bool JobSupervisor::is_schedulers_last_term(int signal, bool again) const {
    return again && signal == SIGTERM && stop_signal_ == SIGTERM && plan_.kill_wait &&
           !plan_.slurm_job_id.empty() && state_ == JobState::stopping;
}

void JobSupervisor::kill_ranks() {
    if (!tally_ || kill_sent_)
        return;
    kill_sent_ = true;
    head_.command(control::KillRanks{generation_number_});
    wait_then(kNodesKillTimeout, JobEvent::hung);
}

void JobSupervisor::give_up() {
    hung_ = true;
    end_generation();
    finish();
}

void JobSupervisor::wait_to_restart() {
    const auto delay = next_ ? next_->delay : plan_.spec.restart.backoff;
    wait_then(std::max(delay, between(steady_clock::now(), fenced_at_)), JobEvent::wait_over);
}

void JobSupervisor::on_report(int node, control::Report&& report) {
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
                             .startup = since(tally_->begun()),
                             .ranks_bound = tally_->ranks_bound(),
                             .numa_nodes = tally_->numa_nodes(),
                             .gpus = tally_->gpus()});
    stop_planner_.ranks_run();
    dispatch(JobEvent::started);
    if (state_ == JobState::running)
        stragglers_.begin_generation(generation_number_);
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
    ended_by_ = judge_start({.rank = rank,
                             .exit_code = exit_code,
                             .node = {},
                             .what = what,
                             .hint = hint,
                             .restart_helps = restart_helps});
    report(SpawnFailed{.rank = rank, .what = what, .hint = hint, .cause = ended_by_->cause});
    failed_at_ = steady_clock::now();
    stop_reason_ = "rank " + std::to_string(rank) + " could not be started";
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
        .ran = tally_ ? since(tally_->begun()) : std::chrono::milliseconds(0),
        .input_spent = input_spent_,
        .enough_nodes = record.cause == Cause::node_lost && !missed_node_.empty()};
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
    const bool restart = next_->action == RestartAction::restart;
    if (!restart)
        dispatch(JobEvent::no_restart);
    else if (!is_ended_from_outside())
        dispatch(JobEvent::restart_after_all);
}

void JobSupervisor::on(int node, control::RanksEnded&& ended) {
    if (!is_current(ended.generation))
        return;
    if (!tally_->first_failure())  // nobody failed before the stop
        ended.failures.clear();
    tally_->ended(node, std::move(ended), steady_clock::now());
}

// A scheduler signals all agents alike: only a node that has said it before says it again.
void JobSupervisor::on(int node, control::StopAsked&& asked) {
    if (asked.signal == control::kParentGone && !stop_signal_) {  // the ranks may save
        unseen_node_ = node;
        return lose(node, JobEvent::stop_asked, kParentGoneReason);
    }
    if (asked.signal == SIGKILL) {
        if (!is_ended_from_outside())
            keeper_gone_of_ = node;
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

void JobSupervisor::report_hang() {
    const auto ends = tally_->ends_but(std::nullopt);
    hang_->record = *ended_by_;
    hang_->stacks = stacks_;
    hang_->stopped = static_cast<int>(ends.size());
    hang_->stopped_in = between(failed_at_, tally_->last_end());
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
    here_.insert(node);
    if (2 * here_.size() > static_cast<std::size_t>(roster_.taking_part()))
        head_.command(control::GoOn{generation_number_});
}

void JobSupervisor::on_node_lost(int node, const std::string& why) {
    if (state_ == JobState::finished || !gone_.insert(node).second)
        return;
    if (tally_)
        tally_->lost(node);
    if (store_.relays)
        store_.relays->forget(node);
    flight_.node_lost(node);
    standstill_.node_lost(node);
    lose(node, JobEvent::node_lost, why);
    end_generation_if_over();
}

// Its agent may still be there, and end its ranks as told.
void JobSupervisor::lose(int node, JobEvent event, const std::string& why) {
    if (!given_up_.insert(node).second)
        return;
    settled_at_ = steady_clock::now() + kSettleTime;
    lost_.push_back(announce_lost(roster_, node, why, since(started_at_)));
    if (event == JobEvent::node_lost && goes_on_without_lost())
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
bool JobSupervisor::goes_on_without_lost() const {
    const auto fewest = fewest_nodes(plan_.spec);
    if (!fewest || is_ended_from_outside() || state_ == JobState::stopping)
        return false;
    Roster left = roster_;
    for (const int node : given_up_)
        left.nodes[static_cast<std::size_t>(node)].ranks = 0;
    return left.taking_part() >= *fewest;
}

// An agent that is cut off from the head ends its ranks by itself, after the same silence by which
// the head has found it lost.
JobEvent JobSupervisor::miss(int node, const std::string& why) {
    missed_node_ = name_of(node);
    why_missed_ = why;
    fenced_at_ = steady_clock::now() + kFenceTime;
    if (state_ == JobState::waiting)
        wait_then(std::max(between(steady_clock::now(), timer_.expiry()), kFenceTime),
                  JobEvent::wait_over);
    return JobEvent::node_missed;
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
    const auto left = between(steady_clock::now(), settled_at_);
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
    if (tally_->checkpoint_step())
        checkpoint_step_ = tally_->checkpoint_step();
    show_warnings();
    report_lost();
    if (ended_by_)  // a rank could not be started, or the job stood still
        settle(*ended_by_);
    if (hang_)
        report_hang();
    else if (tally_->first_failure())
        report_failure();
    // A lost node takes its ranks along, and theirs; else a failure came before a stop.
    if (!lost_node_.empty() || !missed_node_.empty() || !ended_by_)
        if (const auto record = judge_from_outside(true))
            settle(*record);
    report_end();
    tally_.reset();
    if (next_ && next_->action == RestartAction::restart)
        ++generation_number_;
}

void JobSupervisor::report_end() {
    GenerationEnded ended{.record = ended_by_};
    if (ended_by_) {
        ended.next = launcher::name_of(next_->action);
        if (next_->action != RestartAction::restart)
            ended.exit_code = decide_exit(&*ended_by_, next_->action).code;
        // Where there is somebody who would.
        if (next_->action == RestartAction::stop && has_scheduler())
            ended.no_requeue = ended_by_->no_requeue;
        note_end();
    }
    report(std::move(ended));
}

// For the generations and requeues that follow.
void JobSupervisor::note_end() {
    if (!wants_restarts(plan_.spec.restart) && next_->action == RestartAction::stop)
        return;
    if (const std::string lost = restart_book_.note(*next_); !lost.empty())
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
    if (!lost_node_.empty())
        return judge_lost_node(lost_node_, why_lost_, checkpoint_step_.has_value());
    if (keeper_gone_of_)
        return judge_agent_killed(roster_.nodes.size() > 1 ? name_of(*keeper_gone_of_) : "");
    if (stop_signal_)
        return judge_this_stop(!started || tally_->every_rank_exited_zero());
    if (!missed_node_.empty())
        return judge_lost_node(missed_node_, why_missed_, checkpoint_step_.has_value());
    return std::nullopt;
}

EndRecord JobSupervisor::judge_this_stop(bool all_ended_well) {
    stop_planner_.stop();  // no generation follows; the scheduler's word may still be on its way
    AskedToStop stop{.signal = *stop_signal_,
                     .under_scheduler = !plan_.slurm_job_id.empty(),
                     .left = time_left_at_stop_,
                     .all_ended_well = all_ended_well,
                     .has_checkpoint = checkpoint_step_.has_value()};
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
            lost.stopped_others_in = between(failed_at_, tally_->last_end());
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
    failed.stopped_others_in = between(failed_at_, tally_->last_end());
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

void JobSupervisor::finish() {
    if (settles_before(&JobSupervisor::finish))
        return;
    timer_.cancel();
    flight_.stop();
    stop_planner_.stop();
    show_warnings();
    report_end_before_start();
    const ExitDecision decision =
        decide_exit(ended_by_ ? &*ended_by_ : nullptr, next_ ? next_->action : RestartAction::stop);
    report(JobEnded{.exit_code = decision.code,
                    .outcome = decision.outcome,
                    .restarts = restarts_,
                    .ran = since(started_at_)});
    head_.command(control::Finish{.exit_code = decision.code,
                                  .outcome = decision.outcome,
                                  .ends_step = node_that_ends_step()});
}

// Where Slurm sees no node end, the step that is ended would count as one that did well.
int JobSupervisor::node_that_ends_step() const {
    return given_up_.size() < roster_.nodes.size() ? unseen_node_ : -1;
}

void JobSupervisor::leave() {
    const Deadline deadline = Deadline::after(kLeaveTimeout);
    io_.restart();
    while (!head_.all_left() && !deadline.passed())
        io_.run_one_until(deadline.at());
}

void JobSupervisor::warn(int node, const std::string& text) {
    if (roster_.nodes.size() == 1)
        return report(WarningRaised{text});
    warnings_.add(name_of(node), text);
    warning_timer_.expires_after(kWarningDelay);
    warning_timer_.async_wait([this](const std::error_code& error) {
        if (!error)
            show_warnings();
    });
}

void JobSupervisor::show_warnings() {
    for (auto& line : warnings_.take())
        report(WarningRaised{std::move(line)});
}

void JobSupervisor::report(Happening happening) {
    reporter_.handle({.at = std::chrono::system_clock::now(),
                      .generation = generation_number_,
                      .what = std::move(happening)});
}

void JobSupervisor::wait_then(std::chrono::milliseconds time, JobEvent event) {
    timer_.expires_after(time);
    timer_.async_wait([this, event](const std::error_code& error) {
        if (!error)
            dispatch(event);
    });
}

const std::string& JobSupervisor::name_of(int node) const {
    return roster_.nodes[static_cast<std::size_t>(node)].name;
}

}  // namespace autolaunch::launcher
