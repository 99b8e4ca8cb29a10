#include "supervise/node_supervisor.hpp"

#include "base/deadline.hpp"
#include "base/text.hpp"
#include "exit_codes/exit_codes.hpp"
#include "spawn/process_tree.hpp"
#include "supervise/exit_decision.hpp"
#include "supervise/rank_end.hpp"
#include "supervise/stop_signals.hpp"

#include <autolaunch/error.hpp>

#include <asio/post.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using std::chrono::steady_clock;

constexpr auto kOutputInterval = std::chrono::milliseconds(20);
// A scheduler signals ranks and agent one after the other; this is how much later than theirs ours
// may come.
constexpr auto kDoubtTime = std::chrono::milliseconds(250);
constexpr auto kStartSlice = std::chrono::milliseconds(100);
// The same for another task's. Shorter: that task's rank, which ended by the signal, is then still
// in doubt.
constexpr auto kTaskSignalTime = std::chrono::milliseconds(200);
constexpr auto kRanksKillTimeout = std::chrono::seconds(30);
// How long an agent that nobody waits for stays for the head's last word.
constexpr auto kReleaseTimeout = std::chrono::seconds(5);

int exit_code_of(const SpawnError& error) {
    switch (error.error_number()) {
        case ENOENT:
        case ENOTDIR:
            return error.stage() == SpawnStage::workdir ? exit_code::kNoInput
                                                        : exit_code::kNotFound;
        case EACCES:
        case ENOEXEC:
        case EPERM:
            return exit_code::kCannotExecute;
        default:
            return exit_code::kSystem;
    }
}

std::uint64_t microseconds_since(steady_clock::time_point start) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - start).count());
}

}  // namespace

NodeSupervisor::NodeSupervisor(const NodeContext& node, const std::string& head_name,
                               SupervisorOutput output, UniqueFd keeper_gone)
    : node_(node),
      plan_(node.plan),
      head_name_(head_name),
      output_(output),
      keeper_gone_(node.io),
      timer_(node.io),
      output_timer_(node.io),
      doubt_timer_(node.io),
      task_signal_timer_(node.io) {
    if (keeper_gone)
        keeper_gone_.assign(keeper_gone.release());
    node_.member.set_handlers(
        {.on_command = [this](const control::Command& command) { obey(command); },
         .on_head_lost = [this](const std::string& why) { on_head_lost(why); }});
}

int NodeSupervisor::run(const Inheritance& inherited) {
    inherited_ = inherited;
    ::signal(SIGPIPE, SIG_IGN);
    signals_.emplace(node_.io, handled_signals(plan_.spec),
                     [this](int signal) { on_signal(signal); });
    watch_keeper();
    watch_stand_ins();
    if (node_.member.node_rank() > 0)
        for (const auto& warning : plan_.warnings)
            report(WarningRaised{warning});
    refresh_output();
    node_.io.restart();
    node_.io.run();
    return exit_code_;
}

void NodeSupervisor::obey(const control::Command& command) {
    if (const auto* start = std::get_if<control::StartGeneration>(&command)) {
        start_ = *start;
        dispatch(NodeEvent::start);
    } else if (const auto* stop = std::get_if<control::StopRanks>(&command)) {
        if (stop->generation != start_.generation)
            return;
        if (stop->by_user) {
            stopping_ = true;
            forget_doubt();
        } else {
            failure_seen_ = true;
            report_flight_of_failure();
        }
        dispatch(stop->by_user ? NodeEvent::stop_by_user : NodeEvent::stop_failed);
        end_if_over();
    } else if (const auto* kill = std::get_if<control::KillRanks>(&command)) {
        if (kill->generation == start_.generation)
            dispatch(NodeEvent::kill);
    } else if (const auto* ask = std::get_if<control::AskFlight>(&command)) {
        if (ask->generation == start_.generation)
            report_flight(ask->request);
    } else if (const auto* finish = std::get_if<control::Finish>(&command)) {
        exit_code_ = finish->exit_code;
        dispatch(NodeEvent::finish);
    }
}

void NodeSupervisor::dispatch(NodeEvent event) {
    const NodeTransition next = transition(state_, event);
    state_ = next.next;
    act(next.action);
}

void NodeSupervisor::act(NodeAction action) {
    switch (action) {
        case NodeAction::none:
            return;
        case NodeAction::start_ranks:
            return start_ranks();
        case NodeAction::ask_ranks_to_stop:
            return apply_to_ranks(RankEvent::user_stop);
        case NodeAction::terminate_ranks:
            return apply_to_ranks(RankEvent::peer_failed);
        case NodeAction::orphan_ranks:
            wait_then(plan_.spec.restart.grace_period, NodeEvent::grace_over);
            apply_to_ranks(RankEvent::peer_failed);
            return end_if_over();
        case NodeAction::kill_ranks:
            return kill_ranks();
        case NodeAction::await_release:
            return wait_then(kReleaseTimeout, NodeEvent::hung);
        case NodeAction::tell_ended:
            return tell_ended();
        case NodeAction::name_hung:
            return name_hung();
        case NodeAction::leave:
            if (ranks_are_there())
                name_hung();
            return node_.io.stop();
    }
}

void NodeSupervisor::start_ranks() {
    failure_seen_ = failure_reported_ = flight_reported_ = in_doubt_ = ended_ = false;
    starting_ = true;
    generation_.reset();  // its ports and sockets are free before the next ones are taken
    node_.member.begin_generation(start_.generation);
    begun_at_ = last_end_at_ = steady_clock::now();
    start_some();
}

// As many as fit into a time slice; then the loop has its turn, so that nobody believes us lost
// while a slow file system loads programs.
void NodeSupervisor::start_some() {
    const Deadline slice = Deadline::after(kStartSlice);
    try {
        if (!generation_)
            generation_ = make_generation();
        while (generation_->start_next(inherited_)) {
            if (slice.passed())
                return asio::post(node_.io, [this] { start_some(); });
        }
        starting_ = false;
        if (!stopping_ && !failure_seen_)
            tell_running();
    } catch (const SpawnError& error) {
        const bool may_pass =
            exit_code_of(error) == exit_code::kSystem && error.stage() != SpawnStage::stand_in;
        cannot_start(exit_code_of(error), error, may_pass);
    } catch (const Error& error) {
        const bool is_file = generation_ && error.code() != ErrorCode::unsupported;
        cannot_start(is_file ? exit_code::kCannotCreate : exit_code::kUnavailable, error, false);
    }
    end_if_over();
}

void NodeSupervisor::tell_running() {
    const std::uint64_t startup_us = microseconds_since(begun_at_);
    const auto gpus =
        std::count_if(plan_.ranks.begin(), plan_.ranks.end(),
                      [](const RankPlan& rank) { return rank.binding.gpu.has_value(); });
    node_.member.report(control::GenerationRunning{.generation = start_.generation,
                                                   .startup_us = startup_us,
                                                   .ranks_bound = generation_->watch_placement(),
                                                   .numa_nodes = plan_.numa_node_count,
                                                   .gpus = static_cast<int>(gpus)});
}

std::unique_ptr<Generation> NodeSupervisor::make_generation() {
    return std::make_unique<Generation>(
        node_, start_,
        Generation::Callbacks{
            .report = [this](Happening happening) { report(std::move(happening)); },
            .rank_ended = [this] { on_rank_ended(); }});
}

void NodeSupervisor::cannot_start(int exit_code, const Error& error, bool restart_helps) {
    starting_ = false;
    failure_seen_ = failure_reported_ = true;
    const int rank = generation_ ? generation_->starting_rank() : plan_.ranks.front().rank;
    node_.member.report(control::StartFailed{.generation = start_.generation,
                                             .rank = rank,
                                             .exit_code = exit_code,
                                             .restart_helps = restart_helps,
                                             .what = error.what(),
                                             .hint = error.hint()});
    if (node_.member.node_rank() > 0)
        record(SpawnFailed{.rank = rank, .what = error.what(), .hint = error.hint()});
}

void NodeSupervisor::apply_to_ranks(RankEvent event) {
    if (ranks_are_there())
        generation_->apply_to_all(event);
}

void NodeSupervisor::kill_ranks() {
    wait_then(kRanksKillTimeout, NodeEvent::hung);
    apply_to_ranks(RankEvent::kill);
    if (ended_)
        dispatch(NodeEvent::ranks_ended);
}

// SIGKILL had no effect: the ranks hang in the kernel (a dead file system, a driver). Waiting
// longer helps nobody.
void NodeSupervisor::name_hung() {
    std::string pids;
    for (const pid_t pid : generation_->live_pids())
        pids += " " + std::to_string(pid);
    if (!pids.empty())
        report(WarningRaised{
            "these processes did not end long after SIGKILL, and hang in the kernel:" + pids});
}

void NodeSupervisor::on_rank_ended() {
    last_end_at_ = steady_clock::now();
    const RankExited& ended = generation_->exits().back();
    if (is_failure(ended) && !failure_reported_ && !stopping_) {
        if (!in_doubt_)
            failed_at_ = last_end_at_;
        const auto signals = stop_signals(plan_.spec);
        const bool doubtful = std::any_of(signals.begin(), signals.end(), [&](int signal) {
            return looks_stopped_by(ended, signal);
        });
        if (!doubtful) {
            report_failure();
        } else if (!in_doubt_) {
            in_doubt_ = true;
            doubt_timer_.expires_after(kDoubtTime);
            doubt_timer_.async_wait([this](const std::error_code& error) {
                if (error)
                    return;
                report_failure();
                end_if_over();
            });
        }
    }
    end_if_over();
}

void NodeSupervisor::report_failure() {
    forget_doubt();
    failure_seen_ = failure_reported_ = true;
    report_flight_of_failure();
    control::RankFailed failed = generation_->describe_failure();
    failed.age_us = microseconds_since(failed_at_);
    node_.member.report(std::move(failed));
}

// Before the others are stopped: stopping changes where they are.
void NodeSupervisor::report_flight_of_failure() {
    if (!std::exchange(flight_reported_, true) && generation_)
        report_flight(0);
}

void NodeSupervisor::report_flight(int request) {
    auto ranks = generation_ ? generation_->read_flight() : std::vector<flight::RecordedRank>();
    control::FlightRead read{
        .generation = start_.generation, .request = request, .more = false, .ranks = {}};
    for (auto& rank : ranks) {
        if (read.ranks.size() == control::kFlightRanks) {
            read.more = true;
            node_.member.report(read);
            read.more = false;
            read.ranks.clear();
        }
        read.ranks.push_back(std::move(rank));
    }
    node_.member.report(std::move(read));
}

void NodeSupervisor::forget_doubt() {
    in_doubt_ = false;
    doubt_timer_.cancel();
}

// Posted, because a rank's or a signal's handler may be below us on the stack.
void NodeSupervisor::end_if_over() {
    if (ended_ || starting_ || in_doubt_ || (generation_ && !generation_->all_ended()))
        return;
    ended_ = true;
    asio::post(node_.io, [this] {
        timer_.cancel();
        if (generation_)
            generation_->finish(output_.console);
        dispatch(NodeEvent::ranks_ended);
    });
}

void NodeSupervisor::tell_ended() {
    control::RanksEnded ended{.generation = start_.generation,
                              .every_rank_exited_zero = false,
                              .ends = {},
                              .checkpoint_step = {},
                              .age_us = microseconds_since(last_end_at_)};
    if (generation_ && generation_->number() == start_.generation) {
        const auto& exits = generation_->exits();
        ended.every_rank_exited_zero =
            exits.size() == plan_.ranks.size() &&
            std::all_of(exits.begin(), exits.end(),
                        [](const RankExited& e) { return e.exit_code == 0; });
        if (failure_seen_)
            std::transform(exits.begin(), exits.end(), std::back_inserter(ended.ends), to_control);
        ended.checkpoint_step = generation_->checkpoint_step();
    }
    node_.member.report(std::move(ended));
}

void NodeSupervisor::on_signal(int signal) {
    if (signal == SIGCHLD)
        return reap_orphans(generation_ ? generation_->live_pids() : std::vector<pid_t>{});
    if (!stops_the_job(plan_.spec, signal)) {
        if (!ranks_are_there())
            return;
        if (signal == SIGUSR2)
            node_.member.report(control::FlightAsked{});
        return signal == SIGUSR1 ? generation_->request_checkpoint(signal)
                                 : generation_->forward(signal);
    }
    stopping_ = true;
    forget_doubt();
    node_.member.report(control::StopAsked{signal});
    end_if_over();
}

void NodeSupervisor::watch_stand_ins() {
    if (node_.stand_ins == nullptr)
        return;
    const auto on_lost = [this](int local_task) {
        report(WarningRaised{"task " + std::to_string(local_task) +
                             " of this node was killed: it can start no rank any more"});
    };
    node_.stand_ins->watch(
        node_.io,
        {.on_signal = [this](int, int signal) { on_task_signal(signal); }, .on_lost = on_lost});
}

// A scheduler signals all tasks, and ours comes to us directly. A stop that has reached another
// task alone counts, too, but not as a second one.
void NodeSupervisor::on_task_signal(int signal) {
    if (stopping_ || !stops_the_job(plan_.spec, signal))
        return;
    task_signal_timer_.expires_after(kTaskSignalTime);
    task_signal_timer_.async_wait([this, signal](const std::error_code& error) {
        if (!error && !stopping_)
            on_signal(signal);
    });
}

void NodeSupervisor::on_head_lost(const std::string& why) {
    exit_code_ = exit_code::kNoHost;
    record(HeadLost{head_name_, why});
    dispatch(NodeEvent::head_lost);
    if (generation_)
        generation_->close_store();
}

void NodeSupervisor::watch_keeper() {
    if (!keeper_gone_.is_open())
        return;
    keeper_gone_.async_wait(asio::posix::stream_descriptor::wait_read,
                            [this](const std::error_code& error) {
                                if (error)
                                    return;
                                exit_code_ = exit_code::kSignalBase + SIGKILL;
                                stopping_ = true;
                                node_.member.report(control::StopAsked{SIGKILL});
                                dispatch(NodeEvent::keeper_gone);
                                end_if_over();
                            });
}

void NodeSupervisor::wait_then(std::chrono::milliseconds time, NodeEvent event) {
    timer_.expires_after(time);
    timer_.async_wait([this, event](const std::error_code& error) {
        if (!error)
            dispatch(event);
    });
}

void NodeSupervisor::refresh_output() {
    if (generation_)
        generation_->follow_logs(output_.console);
    output_.reporter.tick();
    output_.console.pump();
    output_timer_.expires_after(kOutputInterval);
    output_timer_.async_wait([this](const std::error_code& error) {
        if (!error)
            refresh_output();
    });
}

// A warning goes to the head, which shows it with the node's name and records it where it is the
// head's own.
void NodeSupervisor::report(Happening happening) {
    if (const auto* warning = std::get_if<WarningRaised>(&happening)) {
        node_.member.report(control::NodeWarning{warning->text});
        if (node_.member.node_rank() == 0)
            return;
    }
    record(std::move(happening));
}

void NodeSupervisor::record(Happening happening) {
    output_.reporter.handle({.at = std::chrono::system_clock::now(),
                             .generation = start_.generation,
                             .what = std::move(happening)});
}

}  // namespace autolaunch::launcher
