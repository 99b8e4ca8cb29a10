#include "supervise/job_supervisor.hpp"

#include "base/deadline.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "exit_codes/exit_codes.hpp"
#include "report/failure_evidence.hpp"
#include "report/units.hpp"
#include "supervise/evidence_message.hpp"
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
constexpr auto kKillTimeout = std::chrono::seconds(31);
constexpr auto kLeaveTimeout = std::chrono::seconds(5);
constexpr std::size_t kSecretBytes = 16;
constexpr auto kWarningDelay =
    std::chrono::milliseconds(100);  // equal warnings of other nodes come within it

std::chrono::milliseconds between(steady_clock::time_point start, steady_clock::time_point end) {
    return std::max(std::chrono::milliseconds(0),
                    std::chrono::duration_cast<std::chrono::milliseconds>(end - start));
}

std::chrono::milliseconds since(steady_clock::time_point start) {
    return between(start, steady_clock::now());
}

}  // namespace

JobSupervisor::JobSupervisor(asio::io_context& io, const LaunchPlan& plan, Coordinator& coordinator,
                             const Joined& joined, Reporter& reporter, int first_generation)
    : io_(io),
      plan_(plan),
      coordinator_(coordinator),
      joined_(joined),
      roster_(joined.roster),
      head_(*joined.head),
      reporter_(reporter),
      timer_(io),
      warning_timer_(io),
      end_time_(
          io, plan,
          [this](std::chrono::system_clock::time_point ends_at) { report_end_time(ends_at); }),
      flight_(
          io, head_, plan.run_dir,
          [this](const FlightFindings& found) {
              report(FlightShown{.reason = "SIGUSR2", .lines = found.lines, .path = found.path});
          }),
      generation_number_(first_generation),
      warnings_(plan.warnings) {
    head_.set_handlers(
        {.on_report = [this](int node,
                             control::Report&& report) { on_report(node, std::move(report)); },
         .on_node_lost = [this](int node, const std::string& why) { on_node_lost(node, why); }});
}

void JobSupervisor::start() {
    started_at_ = steady_clock::now();
    report(announce_job(plan_, joined_));
    start_generation();
}

void JobSupervisor::dispatch(JobEvent event) {
    const JobTransition next = transition(state_, event);
    state_ = next.next;
    act(next.action);
}

void JobSupervisor::act(JobAction action) {
    switch (action) {
        case JobAction::none:
            return;
        case JobAction::ask_ranks_to_stop:
            return stop_ranks(true, signal_name(outcome_.stop_signal.value_or(SIGTERM)));
        case JobAction::terminate_ranks:
            return stop_ranks(false, stop_reason_);
        case JobAction::kill_ranks:
            return kill_ranks();
        case JobAction::wait_to_restart:
            return wait_to_restart();
        case JobAction::start_generation:
            return start_generation();
        case JobAction::finish:
            return finish();
        case JobAction::give_up:
            return give_up();
    }
}

void JobSupervisor::start_generation() {
    kill_sent_ = false;
    outcome_.cannot_start_code.reset();
    outcome_.first_failure.reset();
    store_ = {};  // its port is free before the next one is taken
    flight_.begin_generation(generation_number_, static_cast<int>(roster_.nodes.size()),
                             plan_.world_size);
    for (const int node : gone_)
        flight_.node_lost(node);
    tally_.emplace(generation_number_, static_cast<int>(roster_.nodes.size()), steady_clock::now());
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
                                           .secret = random_hex(kSecretBytes)});
}

void JobSupervisor::stop_ranks(bool by_user, const std::string& reason) {
    if (!tally_ || tally_->all_ended())
        return;
    if (by_user || plan_.world_size > 1)
        report(StopRequested{reason});
    head_.command(
        control::StopRanks{.generation = generation_number_, .by_user = by_user, .reason = reason});
    const auto grace = grace_after(plan_, reason);
    if (grace < plan_.spec.restart.grace_period)
        report(WarningRaised{
            "restart.grace_period is " + format_duration(plan_.spec.restart.grace_period) +
            ", but Slurm sends SIGKILL " + format_duration(*plan_.kill_wait) +
            " (KillWait) after SIGTERM: the ranks have " + format_duration(grace)});
    wait_then(grace, JobEvent::grace_over);
}

void JobSupervisor::kill_ranks() {
    if (!tally_ || kill_sent_)
        return;
    kill_sent_ = true;
    head_.command(control::KillRanks{generation_number_});
    wait_then(kKillTimeout, JobEvent::hung);
}

// SIGKILL had no effect: the ranks hang in the kernel (a dead file system, a driver). Waiting
// longer helps nobody.
void JobSupervisor::give_up() {
    outcome_.ranks_hang = true;
    finish();
}

void JobSupervisor::wait_to_restart() {
    ++restarts_;
    ++generation_number_;
    wait_then(plan_.spec.restart.backoff, JobEvent::wait_over);
}

void JobSupervisor::on_report(int node, control::Report&& report) {
    if (state_ == JobState::finished && !std::holds_alternative<control::NodeWarning>(report))
        return;
    std::visit([&](auto& what) { on(node, std::move(what)); }, report);
    end_generation_if_over();
}

void JobSupervisor::on(int, control::GenerationRunning&& running) {
    if (!is_current(running.generation))
        return;
    tally_->running(running);
    if (!tally_->all_running())
        return;
    report(GenerationStarted{.generation = generation_number_,
                             .startup = since(tally_->begun()),
                             .ranks_bound = tally_->ranks_bound(),
                             .numa_nodes = tally_->numa_nodes(),
                             .gpus = tally_->gpus()});
    end_time_.find_out();
    dispatch(JobEvent::started);
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
    outcome_.cannot_start_code = exit_code;
    report(SpawnFailed{.rank = rank, .what = what, .hint = hint});
    failed_at_ = steady_clock::now();
    stop_reason_ = "rank " + std::to_string(rank) + " could not be started";
    dispatch(restart_helps && restart_left() ? JobEvent::rank_failed
                                             : JobEvent::rank_failed_for_good);
}

// The table stops the others for the first failure; a later report may still name an earlier one.
void JobSupervisor::on(int, control::RankFailed&& failed) {
    if (!is_current(failed.generation) || state_ == JobState::stopping)
        return;
    const bool first = !tally_->first_failure();
    tally_->failed(std::move(failed), steady_clock::now());
    failed_at_ = tally_->first_failure()->at;
    if (!first)
        return;
    stop_reason_ = "rank " + std::to_string(tally_->first_failure()->what.end.rank) + " failed";
    dispatch(restart_left() && !died_of_full_disk() ? JobEvent::rank_failed
                                                    : JobEvent::rank_failed_for_good);
}

// A rank that the full disk of its logs ended would end so again: a restart is for when there is
// room.
bool JobSupervisor::died_of_full_disk() const {
    const control::RankFailed& first = tally_->first_failure()->what;
    return !first.no_room.empty() && blames_full_disk(evidence_of(first), first.end, first.no_room);
}

void JobSupervisor::on(int node, control::RanksEnded&& ended) {
    if (is_current(ended.generation))
        tally_->ended(node, std::move(ended), steady_clock::now());
}

// A scheduler signals all agents alike: only a node that has said it before says it again.
void JobSupervisor::on(int node, control::StopAsked&& asked) {
    if (asked.signal == SIGKILL) {
        outcome_.keeper_gone = true;
        return dispatch(JobEvent::keeper_gone);
    }
    const bool again = !asked_to_stop_.insert(node).second;
    if (state_ != JobState::failing && !outcome_.stop_signal)
        outcome_.stop_signal = asked.signal;
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

void JobSupervisor::on_node_lost(int node, const std::string& why) {
    if (state_ == JobState::finished || !gone_.insert(node).second)
        return;
    NodeLost lost{.node = name_of(node), .ranks = {}, .why = why, .ran = since(started_at_)};
    for (int rank = roster_.first_rank(node); rank < roster_.first_rank(node + 1); ++rank)
        lost.ranks.push_back(rank);
    lost_.push_back(std::move(lost));
    if (!outcome_.lost_node)
        outcome_.lost_node = name_of(node);
    if (tally_)
        tally_->lost(node);
    if (store_.relays)
        store_.relays->forget(node);
    flight_.node_lost(node);
    if (!tally_ || !tally_->first_failure())
        failed_at_ = steady_clock::now();
    stop_reason_ = name_of(node) + " was lost";
    if (!tally_)
        report_lost();
    dispatch(JobEvent::node_lost);
    end_generation_if_over();
}

void JobSupervisor::end_generation_if_over() {
    if (!tally_ || !tally_->all_ended())
        return;
    timer_.cancel();
    if (tally_->checkpoint_step())
        checkpoint_step_ = tally_->checkpoint_step();
    outcome_.has_checkpoint = checkpoint_step_.has_value();
    outcome_.every_rank_exited_zero = tally_->every_rank_exited_zero();
    show_warnings();
    report_lost();
    if (tally_->first_failure())
        report_failure();
    tally_.reset();
    dispatch(JobEvent::all_ended);
}

void JobSupervisor::report_lost() {
    for (NodeLost& lost : lost_) {
        if (tally_) {
            const auto ends = tally_->ends_but(std::nullopt);
            lost.stopped = static_cast<int>(std::count_if(
                ends.begin(), ends.end(), [](const RankExited& end) { return end.asked_to_stop; }));
            lost.stopped_others_in = between(failed_at_, tally_->last_end());
            FlightFindings found = flight_.take_failure(lost.node + " was lost");
            lost.flight = std::move(found.lines);
            lost.flight_path = std::move(found.path);
        }
        report(std::move(lost));
    }
    lost_.clear();
}

void JobSupervisor::report_failure() {
    const control::RankFailed& first = tally_->first_failure()->what;
    GenerationFailed failed;
    failed.generation = generation_number_;
    failed.first = first.end;
    if (!outcome_.cannot_start_code)
        outcome_.first_failure = failed.first;
    failed.hostname = first.hostname;
    failed.gpu = first.gpu;
    failed.evidence = evidence_of(first);
    failed.others = tally_->ends_but(first.end.rank);
    failed.stderr_path = first.stderr_path;
    failed.stdout_path = first.stdout_path;
    failed.error_file_path = first.error_file_path;
    failed.oom_kills = first.oom_kills;
    failed.stopped_others_in = between(failed_at_, tally_->last_end());
    if (state_ == JobState::restarting)
        failed.restart_number = restarts_ + 1;
    failed.max_restarts = plan_.spec.restart.max_restarts;
    failed.checkpoint_step = checkpoint_step_;
    failed.no_room = first.no_room;
    failed.restart_held_back = !failed.restart_number && restart_left() && died_of_full_disk();
    FlightFindings found = flight_.take_failure(
        "rank " + std::to_string(failed.first.rank) + " failed", failed.first.rank);
    failed.culprit = std::move(found.culprit);
    failed.flight = std::move(found.lines);
    failed.flight_path = std::move(found.path);
    report(std::move(failed));
}

void JobSupervisor::report_end_time(std::chrono::system_clock::time_point ends_at) {
    const auto left =
        std::chrono::round<std::chrono::seconds>(ends_at - std::chrono::system_clock::now());
    report(TimeLimitKnown{.ends_at = ends_at, .left = std::max(left, std::chrono::seconds(0))});
}

void JobSupervisor::finish() {
    timer_.cancel();
    flight_.stop();
    end_time_.stop();
    show_warnings();
    const ExitDecision decision = decide_exit(outcome_);
    report(JobEnded{.exit_code = decision.code,
                    .outcome = decision.outcome,
                    .restarts = restarts_,
                    .ran = since(started_at_)});
    head_.command(control::Finish{.exit_code = decision.code, .outcome = decision.outcome});
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
