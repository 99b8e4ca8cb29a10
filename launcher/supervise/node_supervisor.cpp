#include "supervise/node_supervisor.hpp"

#include "base/deadline.hpp"
#include "causes/stop_cause.hpp"
#include "exit_codes/exit_codes.hpp"
#include "restart_policy/hang_limit.hpp"
#include "restart_policy/node_limits.hpp"
#include "sampler/plan_sampler.hpp"
#include "spawn/helper_process.hpp"
#include "spawn/process_tree.hpp"
#include "stopping/stop_signals.hpp"
#include "supervise/node_reports.hpp"
#include "supervise/stop_grace.hpp"

#include <autolaunch/error.hpp>

#include <asio/post.hpp>

#include <algorithm>
#include <csignal>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using std::chrono::steady_clock;

// A scheduler signals ranks and agent one after the other; this is how much later than theirs ours
// may come.
constexpr auto kDoubtTime = std::chrono::milliseconds(250);
// And how much later than any other end of a rank that it caused: the scheduler signals all within
// a millisecond or two, and a rank takes longer to end.
constexpr auto kGlanceTime = std::chrono::milliseconds(10);
constexpr auto kStartSlice = std::chrono::milliseconds(100);
// How long ranks that can go on in the next generation have to leave this one.
constexpr auto kLeaveTime = std::chrono::milliseconds(5000);
constexpr auto kEndKeptTime = std::chrono::seconds(2);
constexpr auto kKillTimeout = std::chrono::seconds(30);
// How long an agent that nobody waits for stays for the head's last word.
constexpr auto kReleaseTimeout = std::chrono::seconds(5);
constexpr int kNoGeneration = -1;

std::uint64_t microseconds_since(steady_clock::time_point start) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - start).count());
}

std::optional<std::chrono::milliseconds> told_limit(const JobSpec& spec) {
    const auto limit = hang_limit(spec);
    return limit && limit->told ? std::optional(limit->after) : std::nullopt;
}

}  // namespace

NodeSupervisor::NodeSupervisor(const NodeContext& node, const std::string& head_name,
                               SupervisorOutput output, UniqueFd keeper_gone)
    : node_(node),
      plan_(node.plan),
      head_name_(head_name),
      leave_timer_(node.io),
      output_(output),
      keeper_gone_(node.io),
      timer_(node.io),
      output_timer_(node.io),
      doubt_timer_(node.io),
      task_signal_timer_(node.io),
      answer_timer_(node.io),
      insist_timer_(node.io),
      stop_notice_(
          node.io, [this] { return awaited_ranks(); },
          [this](const std::string& text) { report(WarningRaised{text}); }),
      standstill_(
          node.io, node.plan.run_dir, told_limit(node.plan.spec), [this] { return ranks_there(); },
          [this] { return generation_ ? generation_->gpu_paces() : std::vector<GpuPace>(); },
          [this](control::Report&& told) { node_.member.report(std::move(told)); },
          [this] { return node_.stage_in != nullptr && node_.stage_in->comes(); }),
      grace_(node.plan.spec.restart.grace_period) {
    if (keeper_gone)
        keeper_gone_.assign(keeper_gone.release());
    if (node_.stop_facts != nullptr) {
        node_.stop_facts->ranks_can_stop = [this] {
            return generation_ && has_ranks(state_) && generation_->can_stop();
        };
        node_.stop_facts->ask_checkpoint = [this] {
            if (generation_ && has_ranks(state_))
                generation_->request_checkpoint_by_session();
        };
    }
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
    if (!is_on_head())
        for (const auto& warning : plan_.warnings)
            report(WarningRaised{warning});
    if (node_.late) {
        start_.generation = kNoGeneration;  // what is said of those before is not meant
        node_.member.report(control::Ready{});
    }
    refresh_output();
    // A node alone has nobody who would give it up.
    const bool is_watched = node_.pulse != nullptr && node_.roster.nodes.size() > 1;
    if (is_watched)
        node_.pulse->begin(plan_.spec.rendezvous.lost_after, exit_code::kNoHost);
    node_.io.restart();
    node_.io.run();
    if (is_watched)
        node_.pulse->end();
    return exit_code_;
}

void NodeSupervisor::obey(const control::Command& command) {
    const bool is_deposed =
        quorum_ != nullptr && quorum_->is_member() && quorum_->obeyed() != node_.member.head_node();
    if (is_deposed)
        return;
    if (const auto* start = std::get_if<control::StartGeneration>(&command)) {
        if (awaits_record(*start))
            return;
        start_ = *start;
        if (node_.secrets != nullptr && is_on_head())
            node_.secrets->serve(start_.generation);
        if (node_.stage_in != nullptr && is_on_head())
            node_.stage_in->serve(start_.generation);
        if (takes_part())
            return dispatch(NodeEvent::start);
        if (generation_)  // no generation follows for those that wait for one
            generation_->give_left().end(Deadline::after(kEndKeptTime));
    } else if (const auto* stop = std::get_if<control::StopRanks>(&command)) {
        if (stop->generation != start_.generation)
            return;
        grace_ = std::chrono::milliseconds(stop->grace_ms);
        if (stop->by_user && stop_asked_)
            generation_ ? generation_->tell_grace(grace_) : void();
        if (stop->by_user) {
            stop_asked_ = true;
            stop_signal_ = stop->signal;
        } else {
            see_failure();
        }
        dispatch(stop->by_user ? NodeEvent::stop_by_user : NodeEvent::stop_failed);
        stop_notice_.asked_to_end(grace_);
        standstill_.stop();
    } else if (const auto* leave = std::get_if<control::LeaveGeneration>(&command)) {
        if (leave->generation != start_.generation)
            return;
        grace_ = std::chrono::milliseconds(leave->grace_ms);
        leave_reason_ = leave->reason;
        leave_saves_ = leave->saves;
        leave_renumbers_ = leave->renumbers;
        if (!leave_saves_)
            see_failure();
        dispatch(NodeEvent::leave);
        stop_notice_.asked_to_end(grace_);
        standstill_.stop();
    } else if (const auto* kill = std::get_if<control::KillRanks>(&command)) {
        if (quorum_ != nullptr && kill->generation > start_.generation)
            start_.generation = kill->generation;  // it was begun, and not here
        if (kill->generation == start_.generation)
            dispatch(NodeEvent::kill);
        if (quorum_ != nullptr && state_ == NodeState::idle)
            tell_ended();
    } else if (const auto* ask = std::get_if<control::AskFlight>(&command)) {
        if (ask->generation == start_.generation)
            report_flight(ask->request);
    } else if (const auto* activity = std::get_if<control::AskActivity>(&command)) {
        if (activity->generation == start_.generation)
            standstill_.asked(*activity);
    } else if (const auto* stacks = std::get_if<control::WriteStacks>(&command)) {
        if (stacks->generation == start_.generation)
            standstill_.write_stacks(*stacks);
    } else if (const auto* who = std::get_if<control::AskWhoIsHere>(&command)) {
        node_.member.report(control::Here{who->generation, who->request});
    } else if (const auto* added = std::get_if<control::NodeAdded>(&command)) {
        if (node_.add_node && static_cast<std::size_t>(added->node) == node_.roster.nodes.size())
            node_.add_node(added->name, added->ranks);
    } else if (const auto* check_now = std::get_if<control::CheckNode>(&command)) {
        check(*check_now);
    } else if (const auto* go = std::get_if<control::GoOn>(&command)) {
        go_on(go->generation);
    } else if (const auto* finish = std::get_if<control::Finish>(&command)) {
        exit_code_ = finish->exit_code;
        if (node_.pulse != nullptr && finish->ends_step == node_.plan.node_rank)
            node_.pulse->ask_for_parting();
        dispatch(NodeEvent::finish);
    }
}

void NodeSupervisor::dispatch(NodeEvent event) {
    move_on(event);
    end_if_over();
}

// What happened may have been the last rank's end, or what the end was waiting for.
void NodeSupervisor::end_if_over() {
    if (!generation_ || generation_->all_ended())
        move_on(NodeEvent::ranks_ended);
}

void NodeSupervisor::move_on(NodeEvent event) {
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
        case NodeAction::tell_running:
            return tell_running();
        case NodeAction::wait_in_doubt:
            return wait_then(doubt_timer_, kDoubtTime, NodeEvent::doubt_over);
        case NodeAction::glance_at_signals:
            return wait_then(doubt_timer_, kGlanceTime, NodeEvent::doubt_over);
        case NodeAction::report_failure:
            return report_failure();
        case NodeAction::ask_ranks_to_stop:
            return ask_ranks_to_stop();
        case NodeAction::terminate_ranks:
            return apply_to_ranks(RankEvent::peer_failed);
        case NodeAction::ask_ranks_to_leave:
            return ask_ranks_to_leave();
        case NodeAction::orphan_ranks:
            if (fewest_nodes(plan_.spec))  // the others may begin without this node
                return act(NodeAction::kill_ranks);
            wait_then(timer_, plan_.spec.restart.grace_period, NodeEvent::grace_over);
            return apply_to_ranks(RankEvent::peer_failed);
        case NodeAction::kill_ranks:
            stop_notice_.killed(stop_asked_);
            wait_then(timer_, kKillTimeout, NodeEvent::hung);
            return apply_to_ranks(RankEvent::kill);
        case NodeAction::clear_up:
            return clear_up();
        case NodeAction::await_release:
            return wait_then(timer_, kReleaseTimeout, NodeEvent::hung);
        case NodeAction::tell_ended:
            return tell_ended();
        case NodeAction::tell_and_await_release:
            tell_ended();
            return wait_then(timer_, kReleaseTimeout, NodeEvent::hung);
        case NodeAction::name_hung:
            return name_hung();
        case NodeAction::leave:
            name_hung();
            end_kept();
            return node_.io.stop();
    }
}

void NodeSupervisor::start_ranks() {
    failure_seen_ = held_ = false;
    answer_timer_.cancel();
    insist_timer_.cancel();
    stop_notice_.begin_generation();
    standstill_.begin_generation(start_.generation);
    if (node_.stop_facts != nullptr)
        node_.stop_facts->pace.begin_generation();
    end_kept();  // of a generation that could not be made
    if (generation_)
        kept_ = generation_->give_left();
    generation_.reset();  // its ports and sockets are free before the next ones are taken
    node_.member.begin_generation(start_.generation);
    if (node_.stage_out != nullptr)
        node_.stage_out->listen(start_.generation);
    begun_at_ = last_end_at_ = steady_clock::now();
    start_some();
}

bool NodeSupervisor::takes_part() const {
    const auto node = static_cast<std::size_t>(node_.member.node_rank());
    return node >= start_.ranks_per_node.size() || start_.ranks_per_node[node] > 0;
}

// As many as fit into a time slice; then the loop has its turn, so that nobody believes us lost
// while a slow file system loads programs.
void NodeSupervisor::start_some() {
    if (state_ != NodeState::starting)
        return;
    const Deadline slice = Deadline::after(kStartSlice);
    try {
        if (!generation_) {
            adapt_plan();
            generation_ = make_generation();
        }
        if (!generation_->can_start(inherited_, [this] { start_some(); }))
            return;
        while (generation_->start_next(inherited_)) {
            if (slice.passed())
                return asio::post(node_.io, [this] { start_some(); });
        }
    } catch (const Error& error) {
        return cannot_start(error);
    }
    dispatch(NodeEvent::all_started);
}

// Other nodes than before: ranks have other numbers, and who stayed is told its own, where it can
// change it.
void NodeSupervisor::adapt_plan() {
    const std::vector<int>& ranks = start_.ranks_per_node;
    const Roster& roster = node_.roster;
    if (ranks.empty() || (ranks == roster.ranks_per_node() &&
                          (start_.order.empty() || start_.order == roster.in_rank_order())))
        return;
    const std::size_t ranks_here = plan_.ranks.size();
    kept_.end_fixed(Deadline::after(kEndKeptTime));
    node_.replan(ranks, start_.order);
    if (plan_.ranks.size() != ranks_here)  // each has another part of the node, then
        kept_.end(Deadline::after(kEndKeptTime));
}

void NodeSupervisor::tell_running() {
    if (stop_asked_)
        return;  // the head knows more than that
    const std::uint64_t startup_us = microseconds_since(begun_at_);
    control::GenerationRunning running = running_report(plan_, *generation_);
    running.generation = start_.generation;
    running.startup_us = startup_us;
    node_.member.report(running);
}

std::unique_ptr<Generation> NodeSupervisor::make_generation() {
    if (node_.sampler != nullptr)  // of another plan, perhaps
        node_.sampler->set_gpus(watched_gpus(plan_), gpu_of_rank(plan_));
    return std::make_unique<Generation>(
        node_, start_,
        Generation::Callbacks{
            .report = [this](Happening happening) { report(std::move(happening)); },
            .rank_ended = [this] { on_rank_ended(); },
            .phase = [this](int rank, bool begins) { standstill_.phase(rank, begins); },
            .stacks =
                [this](const SessionPeer& peer, const session::PythonStacks& stacks) {
                    standstill_.can_tell_stacks(peer.rank, peer.kernel_pid, stacks);
                },
            .rank_left = [this] { on_rank_left(); }},
        kept_);
}

void NodeSupervisor::cannot_start(const Error& error) {
    control::StartFailed failed = start_failed_report(plan_, generation_.get(), error);
    failed.generation = start_.generation;
    node_.member.report(failed);
    if (!is_on_head())
        record(SpawnFailed{.rank = failed.rank, .what = failed.what, .hint = failed.hint});
    see_failure();
    dispatch(NodeEvent::start_failed);
}

// As ranks that cannot be started, though some run: the head stops them. A generation that begins
// is told by StageIn itself; what failed by itself, or is being stopped, has its reason already.
void NodeSupervisor::cannot_go_on(const Error& error) {
    if (state_ == NodeState::running && !stop_asked_)
        cannot_start(error);
}

void NodeSupervisor::apply_to_ranks(RankEvent event) {
    if (generation_)
        generation_->apply_to_all(event, grace_, stop_signal_);
}

// A program that saves on Ctrl-C needs the time for it; one that takes no notice of it gets SIGTERM
// before the end.
void NodeSupervisor::ask_ranks_to_stop() {
    const bool by_person = sent_by_a_person(stop_signal_);
    if (const int own = own_stop_signal(plan_.spec); own != 0 && !by_person)
        stop_signal_ = own;
    if (stop_signal_ == SIGTERM || stop_signal_ == 0)
        return apply_to_ranks(RankEvent::user_stop);
    apply_to_ranks(RankEvent::user_interrupt);
    if (own_stop_signal(plan_.spec) != 0)
        apply_later(answer_timer_, grace_ / 2, RankEvent::no_answer);
    apply_later(insist_timer_, grace_ * 2 / 3, RankEvent::insist);
}

// Who does not leave in its time is started anew.
void NodeSupervisor::ask_ranks_to_leave() {
    if (!generation_)
        return;
    if (leave_saves_) {
        stop_signal_ = SIGTERM;
        return ask_ranks_to_stop();
    }
    generation_->ask_to_leave(leave_reason_, grace_, leave_renumbers_);
    insist_timer_.expires_after(std::min(kLeaveTime, grace_ / 2));
    insist_timer_.async_wait([this](const std::error_code& error) {
        if (!error && generation_)
            generation_->insist_on_leaving();
    });
}

void NodeSupervisor::on_rank_left() {
    last_end_at_ = steady_clock::now();
    end_if_over();
}

// No generation follows for those that wait for one.
void NodeSupervisor::end_kept() {
    const Deadline deadline = Deadline::after(kEndKeptTime);
    kept_.end(deadline);
    if (state_ == NodeState::left && generation_)
        generation_->give_left().end(deadline);
}

void NodeSupervisor::apply_later(asio::steady_timer& timer, std::chrono::milliseconds time,
                                 RankEvent event) {
    timer.expires_after(time);
    timer.async_wait([this, event](const std::error_code& error) {
        if (!error && has_ranks(state_))
            apply_to_ranks(event);
    });
}

// Posted, because a rank's or a signal's handler may be below us on the stack.
void NodeSupervisor::clear_up() {
    asio::post(node_.io, [this] {
        timer_.cancel();
        if (generation_)
            generation_->end_leftovers();
        finish_output();
    });
}

// Who reads slowly what is to come whole is waited for, until somebody stops the job. The loop goes
// on meanwhile, and with it the output.
void NodeSupervisor::finish_output() {
    const bool wait = state_ == NodeState::ending && !stop_asked_ && generation_ &&
                      generation_->owes_output(output_.console);
    if (wait) {
        timer_.expires_after(kOutputInterval);
        return timer_.async_wait([this](const std::error_code& error) {
            if (!error)
                finish_output();
        });
    }
    if (generation_)
        generation_->finish(output_.console);
    dispatch(NodeEvent::cleared);
}

void NodeSupervisor::tell_ended() {
    control::RanksEnded ended;
    if (generation_ && generation_->number() == start_.generation)
        ended = ranks_ended_report(plan_, *generation_, failure_seen_);
    ended.generation = start_.generation;
    ended.age_us = microseconds_since(last_end_at_);
    node_.member.report(std::move(ended));
}

std::vector<pid_t> NodeSupervisor::known_children() const {
    if (generation_)
        return generation_->own_processes();
    std::vector<pid_t> pids = HelperProcess::lasting();
    if (node_.python != nullptr && node_.python->pid() > 0)
        pids.push_back(node_.python->pid());
    if (node_.packages != nullptr && node_.packages->pid() > 0)
        pids.push_back(node_.packages->pid());
    if (node_.secrets != nullptr && node_.secrets->asking() > 0)
        pids.push_back(node_.secrets->asking());
    if (node_.stage_in != nullptr)
        for (const pid_t pid : node_.stage_in->pids())
            pids.push_back(pid);
    if (node_.stage_out != nullptr && node_.stage_out->pid() > 0)
        pids.push_back(node_.stage_out->pid());
    if (node_.sampler != nullptr && node_.sampler->pid() > 0)
        pids.push_back(node_.sampler->pid());
    if (node_.warm != nullptr)
        for (const pid_t spare : node_.warm->pids())
            pids.push_back(spare);
    return pids;
}

void NodeSupervisor::wait_then(asio::steady_timer& timer, std::chrono::milliseconds time,
                               NodeEvent event) {
    timer.expires_after(time);
    timer.async_wait([this, event](const std::error_code& error) {
        if (!error)
            dispatch(event);
    });
}

}  // namespace autolaunch::launcher
