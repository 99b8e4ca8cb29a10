#include "supervise/job_supervisor.hpp"
#include "restart_policy/node_limits.hpp"

#include "base/deadline.hpp"
#include "base/hash.hpp"
#include "base/room_on_disk.hpp"
#include "base/text.hpp"
#include "causes/rank_end.hpp"
#include "causes/stop_cause.hpp"
#include "exit_codes/exit_codes.hpp"
#include "report/units.hpp"
#include "restart_policy/hang_limit.hpp"
#include "supervise/failure_announcement.hpp"
#include "supervise/job_announcement.hpp"
#include "supervise/stop_grace.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <asio/post.hpp>

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
constexpr auto kLongestWaitForRoom = std::chrono::minutes(30);
constexpr auto kLookForRoom = std::chrono::seconds(1);
constexpr std::size_t kSecretBytes = 16;
constexpr auto kLeastChange =
    std::chrono::milliseconds(500);  // of a stop's time, to tell the ranks
constexpr auto kWarningDelay =
    std::chrono::milliseconds(100);  // equal warnings of other nodes come within it

Membership make_membership(const JobSpec& spec, const Roster& roster) {
    std::vector<Membership::Node> nodes;
    for (const RosterNode& node : roster.nodes)
        nodes.push_back({node.name, node.ranks + node.held_back});
    const int at_start = roster.taking_part();
    return {member_limits(spec, at_start), nodes, at_start, roster.self};
}

}  // namespace

JobSupervisor::JobSupervisor(asio::io_context& io, const LaunchPlan& plan, Coordinator& coordinator,
                             const Joined& joined, Reporter& reporter, StopFacts& stop_facts,
                             ConsoleWatchers& watchers, int first_generation, Quorum* quorum)
    : io_(io),
      plan_(plan),
      coordinator_(coordinator),
      joined_(joined),
      roster_(joined.roster),
      members_(make_membership(plan.spec, joined.roster)),
      head_(*joined.head),
      reporter_(reporter),
      watchers_(watchers),
      timer_(io),
      warning_timer_(io),
      settle_timer_(io),
      peer_timer_(io),
      check_timer_(io),
      quorum_(quorum),
      succession_timer_(io),
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
      stragglers_(
          io, plan, head_, flight_, [this](Happening what) { report(std::move(what)); },
          [this](int rank, const std::string& what) { on_straggler(rank, what); }),
      generation_number_(first_generation),
      restart_book_(plan),
      warnings_(plan.warnings) {
    stop_facts.on_checkpoint = [this](std::int64_t step) { note_checkpoint(step); };
    if (joined.peers)
        doors_ = joined.peers->doors;
    head_.set_handlers(
        {.on_report = [this](int node,
                             control::Report&& report) { on_report(node, std::move(report)); },
         .on_node_lost = [this](int node, const std::string& why) { on_node_lost(node, why); }});
}

void JobSupervisor::start(const JobOrigin& origin) {
    started_at_ = steady_clock::now();
    JobStarted announced = announce_job(plan_, joined_);
    announced.preparation = elapsed_between(origin.began, started_at_);
    announced.requeue = origin.requeue;
    report(std::move(announced));
    if (const std::string why = why_no_replacement(plan_.spec); !why.empty())
        report(WarningRaised{"restart.straggler: replace replaces no node: " + why});
    if (plan_.spec.restart.warm_processes && !may_start_anew(plan_.spec))
        report(
            WarningRaised{"restart.warm_processes keeps no processes: no restarts are wanted "
                          "(restart.max_restarts, restart.on)"});
    stop_planner_.say_budget();
    begin_without_unfit(origin.unfit);
    open_door();
    start_generation();
}

// A rule's word comes from within the handling of a rank's report: it is acted on after that.
void JobSupervisor::watch_element(const SweepSpec& sweep) {
    element_.emplace(sweep, plan_.run_dir,
                     ElementWatch::Callbacks{
                         .stop =
                             [this](const std::string& why) {
                                 asio::post(io_, [this, why, alive = std::weak_ptr(alive_)] {
                                     if (alive.lock())
                                         stop_early(why);
                                 });
                             },
                         .warn = [this](const std::string& text) { report(WarningRaised{text}); }});
    element_->begin();
}

void JobSupervisor::on_step(const StepReported& step) {
    const auto tokens =
        step.tokens ? std::optional(static_cast<double>(*step.tokens)) : std::nullopt;
    if (element_)
        element_->on_step(
            {.step = step.step, .loss = step.loss, .seconds = step.seconds, .tokens = tokens},
            step.total_steps);
}

// As a scheduler would ask, but nobody kills the job: a save has all the time it wants.
void JobSupervisor::stop_early(const std::string& why) {
    if (state_ != JobState::running || is_ended_from_outside())
        return;
    stopped_early_ = why;
    stop_signal_ = SIGTERM;
    stop_reason_ = "the sweep stops this element early: " + why;
    dispatch(JobEvent::stop_asked);
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
            return stop_ranks(true, time_limit_in_ || !stopped_early_.empty() ? stop_reason_
                                    : stop_signal_ ? signal_name(*stop_signal_)
                                                   : stop_reason_);
        case JobAction::terminate_ranks:
            return stop_ranks(false, stop_reason_);
        case JobAction::ask_ranks_to_save:
            return ask_ranks_to_save();
        case JobAction::kill_ranks:
            return kill_ranks();
        case JobAction::wait_to_restart:
            return wait_to_restart();
        case JobAction::start_generation:
            restarts_ += renewing_ ? 0 : 1;
            return start_generation();
        case JobAction::finish:
            return finish();
        case JobAction::give_up:
            return give_up();
    }
}

void JobSupervisor::start_generation() {
    kill_sent_ = renewing_ = false;
    renewal_.clear();
    choose_nodes();
    ended_by_.reset();
    ranks_given_up_ = false;
    next_.reset();
    hang_.reset();
    not_replaced_.clear();
    stacks_.clear();
    store_ = {};  // its port is free before the next one is taken
    flight_.begin_generation(generation_number_, static_cast<int>(roster_.nodes.size()),
                             roster_.world_size());
    standstill_.begin_generation(generation_number_, static_cast<int>(roster_.nodes.size()));
    tally_.emplace(generation_number_, static_cast<int>(roster_.nodes.size()), steady_clock::now());
    for (int node = 0; node < members_.size(); ++node) {
        if (members_.takes_part(node))
            continue;
        flight_.node_lost(node);
        standstill_.node_lost(node);
        tally_->leave_out(node);
    }
    quorum_ != nullptr ? propose_generation() : begin_generation();
}

void JobSupervisor::begin_generation() {
    dismiss_drained();
    begun_generation_ = generation_number_;
    for (std::size_t at = 0; at < roster_.nodes.size(); ++at)
        if (roster_.nodes[at].ranks > 0)
            had_ranks_.insert(static_cast<int>(at));
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
                                           .ranks_per_node = roster_.ranks_per_node(),
                                           .order = roster_.order});
}

// Of the generation that is about to begin.
void JobSupervisor::choose_nodes() {
    missed_node_.clear();
    for (std::string& line : members_.leave_out(restart_book_.unfit_nodes()))
        report(WarningRaised{std::move(line)});
    World world = members_.choose();
    order_ = world.order;
    for (int at = 0; at < members_.size(); ++at) {
        RosterNode& node = roster_.nodes[static_cast<std::size_t>(at)];
        const int ranks = members_.node(at).ranks;
        node.ranks = world.ranks_per_node[static_cast<std::size_t>(at)];
        node.held_back = members_.is_fit(at) && node.ranks == 0 ? ranks : 0;
    }
    // MPI libraries are told of nodes in one order, and number ranks by it.
    roster_.order = plan_.mpi.mode == MpiMode::none ? world.order : std::vector<int>();
    if (world.changed)
        report(WorldChanged{.nodes = roster_.taking_part(),
                            .world_size = roster_.world_size(),
                            .without = std::move(world.without),
                            .instead = std::move(world.joining)});
}

void JobSupervisor::stop_ranks(bool by_user, const std::string& reason) {
    if (!tally_ || tally_->all_ended())
        return;
    const int signal = by_user ? stop_signal_.value_or(SIGTERM) : 0;
    if (by_user)
        stop_asked_at_ = steady_clock::now();
    // At the time limit Slurm sends SIGTERM, and SIGKILL only then.
    const auto kill_wait = plan_.kill_wait.value_or(std::chrono::seconds(0));
    const auto grace = !by_user                  ? plan_.spec.restart.grace_period
                       : !stopped_early_.empty() ? stop_planner_.grace_after(0)
                       : time_limit_in_ ? stop_planner_.grace_within(*time_limit_in_ + kill_wait)
                                        : stop_planner_.grace_after(signal);
    if (by_user || roster_.world_size() > 1)
        report(StopRequested{
            .reason = reason,
            .failed = !by_user,
            .detection = by_user ? std::chrono::milliseconds(0) : elapsed_since(failed_at_),
            .grace = grace,
            .can_hurry = by_user && signal == SIGINT});
    if (by_user && !time_limit_in_ && grace < plan_.spec.restart.grace_period)
        report(WarningRaised{shortened_notice(plan_, grace)});
    // Who is stopped for a straggler is to save.
    if (state_ != JobState::restarting || is_replacing())
        return order_stop(by_user, reason, grace);
    head_.command(control::LeaveGeneration{.generation = generation_number_,
                                           .reason = reason,
                                           .grace_ms = static_cast<std::uint64_t>(grace.count()),
                                           .renumbers = !missed_node_.empty()});
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
    return elapsed_between(steady_clock::now(), kill_at_);
}

// Asked by ourselves, before the allocation ends, as a scheduler would ask.
void JobSupervisor::on_last_moment(std::chrono::milliseconds left) {
    if (state_ != JobState::running && state_ != JobState::starting)
        return;
    time_limit_in_ = left;
    stop_signal_ = SIGTERM;
    stop_reason_ = "the time limit comes in " + format_duration(left) + ", and " +
                   (plan_.spec.storage.stage_out_time.count() > 0
                        ? "a save and the copies of storage.stage_out must fit in"
                        : "a save must fit in");
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
    if (waits_for_room() || begin_check())
        return;
    const auto delay = next_       ? next_->delay
                       : renewing_ ? std::chrono::milliseconds(0)
                                   : plan_.spec.restart.backoff;
    wait_then(std::max(delay, elapsed_between(steady_clock::now(), fenced_at_)),
              JobEvent::wait_over);
}

// Begun on a full disk it would end as the one before did.
bool JobSupervisor::waits_for_room() {
    if (!ended_by_ || ended_by_->vain != kNoRoom)
        return false;
    const auto now = steady_clock::now();
    if (!room_awaited_until_) {
        if (why_no_room(plan_.run_dir).empty())
            return false;
        room_awaited_until_ = now + kLongestWaitForRoom;
        report(WarningRaised{"the restart waits for room in " + plan_.run_dir + ", " +
                             format_duration(kLongestWaitForRoom) + " at most"});
    } else if (now > *room_awaited_until_ || why_no_room(plan_.run_dir).empty()) {
        room_awaited_until_.reset();
        return false;
    }
    timer_.expires_after(kLookForRoom);
    timer_.async_wait([this](const std::error_code& error) {
        if (!error)
            wait_to_restart();
    });
    return true;
}

void JobSupervisor::finish() {
    if (settles_before(&JobSupervisor::finish))
        return;
    timer_.cancel();
    check_timer_.cancel();
    succession_timer_.cancel();
    flight_.stop();
    show_warnings();
    report_end_before_start();
    if (stages_out_before(&JobSupervisor::finish))
        return;
    stop_planner_.stop();
    const ExitDecision decision = judge_stage_out(decide_exit(
        ended_by_ ? &*ended_by_ : nullptr, next_ ? next_->action : RestartAction::stop));
    if (element_)
        element_->end(decision.code, decision.outcome,
                      ended_by_ && ended_by_->outcome == kStoppedEarly);
    report(JobEnded{.exit_code = decision.code,
                    .outcome = decision.outcome,
                    .restarts = restarts_,
                    .ran = elapsed_since(started_at_)});
    answer_all("the job has ended: " + decision.outcome);
    watchers_.finish(decision.code, decision.outcome);
    finish_ = control::Finish{.exit_code = decision.code,
                              .outcome = decision.outcome,
                              .ends_step = node_that_ends_step()};
    quorum_ != nullptr ? end_by_record() : end_is_recorded();
}

// Where Slurm sees no node end, the step that is ended would count as one that did well.
int JobSupervisor::node_that_ends_step() const {
    return members_.lost_nodes() < members_.size() ? unseen_node_ : -1;
}

void JobSupervisor::leave() {
    const Deadline deadline = Deadline::after(kLeaveTimeout);
    io_.restart();
    while (!head_.all_left() && !deadline.passed())
        io_.run_one_until(deadline.at());
    if (joined_.door)
        joined_.door->set_handlers({});
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
