#include "supervise/node_supervisor.hpp"

#include "base/deadline.hpp"
#include "causes/stop_cause.hpp"
#include "exit_codes/exit_codes.hpp"
#include "secrets/secrets.hpp"
#include "spawn/process_tree.hpp"
#include "stopping/stop_signals.hpp"
#include "supervise/node_reports.hpp"

#include <time.h>

#include <algorithm>
#include <csignal>
#include <system_error>
#include <utility>

// What reaches the agent from elsewhere than the head (signals, ends of ranks, its keeper, the
// clock), and what it tells the head of it.

namespace autolaunch::launcher {

namespace {

using std::chrono::steady_clock;

// How much later than a rank's end the signal of its task may come; shorter than kDoubtTime, for
// that rank is then still in doubt.
constexpr auto kTaskSignalTime = std::chrono::milliseconds(200);

// Also while the machine sleeps, which steady_clock leaves out.
std::chrono::nanoseconds time_since_boot() {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

StopNotice::Ranks NodeSupervisor::awaited_ranks() const {
    if (!generation_ || !has_ranks(state_))
        return {};
    return {generation_->live_ranks(), generation_->rank_count()};
}

std::vector<std::pair<int, pid_t>> NodeSupervisor::ranks_there() const {
    std::vector<std::pair<int, pid_t>> there;
    if (generation_)
        for (const LiveRank& rank : generation_->live_ranks())
            there.emplace_back(rank.rank, rank.pid);
    return there;
}

// SIGKILL had no effect: a dead file system, a driver. Waiting longer helps nobody.
void NodeSupervisor::name_hung() {
    if (generation_ && !generation_->all_ended())
        report(WarningRaised{hung_notice(generation_->live_ranks())});
}

// Where a rank has the terminal, Ctrl-C is sent to it alone, and is meant for the job.
bool NodeSupervisor::was_stopped_at_terminal(const RankExited& ended) const {
    return node_.input != nullptr && node_.input->has_terminal(ended.rank) &&
           (looks_stopped_by(ended, SIGINT) || looks_stopped_by(ended, SIGQUIT) ||
            looks_stopped_by(ended, SIGHUP));
}

// After a stop was asked no end is a failure.
void NodeSupervisor::on_rank_ended() {
    last_end_at_ = steady_clock::now();
    const RankExited& ended = generation_->exits().back();
    if (!stop_asked_ && was_stopped_at_terminal(ended))
        on_signal(ended.signal.value_or(SIGINT));
    if (stop_asked_ || !is_failure(ended))
        return end_if_over();
    dispatch(looks_like_a_stop(ended, plan_.spec) ? NodeEvent::rank_in_doubt
                                                  : NodeEvent::rank_failed);
}

void NodeSupervisor::report_failure() {
    see_failure();
    node_.member.report(generation_->describe_failure());
}

// Before the others are stopped: stopping changes where they are.
void NodeSupervisor::see_failure() {
    if (!std::exchange(failure_seen_, true) && generation_)
        report_flight(0);
}

void NodeSupervisor::report_flight(int request) {
    auto ranks = generation_ ? generation_->read_flight() : std::vector<flight::RecordedRank>();
    for (control::FlightRead& read : flight_reports(std::move(ranks))) {
        read.generation = start_.generation;
        read.request = request;
        node_.member.report(std::move(read));
    }
}

void NodeSupervisor::on_signal(int signal) {
    if (signal == SIGCHLD) {
        if (node_.input != nullptr)
            node_.input->on_child_change();
        return reap_orphans(known_children());
    }
    if (signal == SIGCONT) {
        if (node_.input != nullptr)
            node_.input->on_continue();
        return;
    }
    if (!stops_the_job(plan_.spec, signal)) {
        if (!has_ranks(state_))
            return;
        if (signal == SIGUSR2)
            node_.member.report(control::FlightAsked{});
        return signal == SIGUSR1 ? generation_->request_checkpoint(signal)
                                 : generation_->forward(signal);
    }
    if (state_ == NodeState::left && node_.stage_out != nullptr)
        return node_.stage_out->cut();
    stop_asked_ = true;
    told_signal_ = signal;
    const bool parent_is_gone = node_.pulse != nullptr && node_.pulse->parent_is_gone();
    const bool is_news = parent_is_gone && !std::exchange(parent_gone_, true);
    node_.member.report(control::StopAsked{is_news ? control::kParentGone : signal});
    dispatch(NodeEvent::stop_signalled);
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
    if (stop_asked_ || !stops_the_job(plan_.spec, signal))
        return;
    task_signal_timer_.expires_after(kTaskSignalTime);
    task_signal_timer_.async_wait([this, signal](const std::error_code& error) {
        if (!error && !stop_asked_)
            on_signal(signal);
    });
}

void NodeSupervisor::on_head_lost(const std::string& why) {
    if (quorum_ != nullptr && quorum_->is_member()) {
        why_headless_ = why;
        const int head = node_.member.head_node();
        node_.member.leave_head();
        return quorum_->head_link_lost(head);
    }
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
                                stop_asked_ = true;
                                node_.member.report(control::StopAsked{SIGKILL});
                                dispatch(NodeEvent::keeper_gone);
                            });
}

// Suspended by Slurm, in a machine that slept, or stopped: the others may have given us up, and
// begun another generation. Those who slept as well have not.
void NodeSupervisor::see_oversleeping() {
    const auto now = time_since_boot();
    const auto before = std::exchange(last_look_, now);
    const auto slept = now - before;
    const bool is_alone = node_.roster.nodes.size() < 2;
    if (quorum_ != nullptr && quorum_->is_member())
        return;  // which sees it, too
    if (before == before.zero() || slept < plan_.spec.rendezvous.lost_after || is_alone ||
        !generation_ || !has_ranks(state_))
        return;
    held_ = true;
    generation_->hold();
    report(WarningRaised{
        "this node's agent stood still for " +
        std::to_string(std::chrono::round<std::chrono::seconds>(slept).count()) +
        " s (a suspended job, a machine that slept): its ranks are held until most nodes have "
        "answered"});
    node_.member.report(control::Overslept{start_.generation});
}

void NodeSupervisor::go_on(int generation) {
    if (generation != start_.generation || !std::exchange(held_, false) || !generation_)
        return;
    generation_->go_on();
    report(
        WarningRaised{"most nodes are there, and nobody has gone on without this one: its ranks "
                      "go on"});
}

void NodeSupervisor::refresh_output() {
    see_oversleeping();
    if (node_.pulse != nullptr)
        node_.pulse->beat(ranks_may_live());
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
    note_for_stop(happening);
    standstill_.note(happening);
    if (node_.sampler != nullptr)
        node_.sampler->note(happening, start_.generation);
    if (auto* warning = std::get_if<WarningRaised>(&happening)) {
        if (node_.secrets != nullptr)  // a spare's last words, perhaps
            hide_values(warning->text, node_.secrets->masks());
        node_.member.report(control::NodeWarning{warning->text});
        if (is_on_head())
            return;
    }
    record(std::move(happening));
}

void NodeSupervisor::note_for_stop(const Happening& happening) {
    if (node_.stop_facts == nullptr)
        return;
    StopFacts& facts = *node_.stop_facts;
    const int first_rank = plan_.ranks.empty() ? 0 : plan_.ranks.front().rank;
    if (const auto* step = std::get_if<StepReported>(&happening);
        step && step->rank == first_rank) {
        facts.pace.step_done(steady_clock::now());
        if (on_step_)
            on_step_(*step);
    }
    const auto* saved = std::get_if<CheckpointPublished>(&happening);
    if (saved != nullptr && facts.on_checkpoint)
        facts.on_checkpoint(saved->step);
    if (saved != nullptr && saved->bytes)
        facts.saves.add_save(
            saved->path,
            MeasuredSave{.place = {},
                         .step = saved->step,
                         .bytes = *saved->bytes,
                         .stall_seconds = saved->stall_seconds,
                         .seconds = saved->save_seconds.value_or(saved->stall_seconds)});
    if (const auto* drained = std::get_if<CheckpointDrained>(&happening)) {
        facts.saves.add_drain(drained->path, drained->step, drained->bytes, drained->copied,
                              drained->seconds);
        if (facts.on_save)
            facts.on_save();
    }
    const double took = saved ? saved->save_seconds.value_or(saved->stall_seconds) : 0;
    if (took <= 0)
        return;
    facts.saves.add(took);
    if (facts.on_save)
        facts.on_save();
}

void NodeSupervisor::record(Happening happening) {
    output_.reporter.handle({.at = std::chrono::system_clock::now(),
                             .generation = start_.generation,
                             .what = std::move(happening)});
}

}  // namespace autolaunch::launcher
