#include "simulation/agent.hpp"

#include "restart_policy/membership.hpp"
#include "restart_policy/node_fitness.hpp"

#include <algorithm>
#include <chrono>

// An agent as the head: the job's table, the restart policy, and the records that are to follow.

namespace simulation {

using namespace autolaunch::launcher;

namespace {

constexpr int kGrace = 300, kHung = 3 * kLease;
constexpr int kSuccess = 0, kNodesLost = 68, kFailed = 1, kHungCode = 70;

RestartSpec restart_spec(int max_restarts) {
    RestartSpec restart;
    restart.max_restarts = max_restarts;
    return restart;
}

}  // namespace

void Agent::lead(const RecordPointer& newest, succession::Moment fenced_at) {
    leads_ = taken_over_ = true;
    world_.write_log(succession_->term().number, newest->generation, "head_changed");
    history_ = newest->history;
    gone_ = newest->gone;
    kept_ = newest->kept;
    restarts_ = newest->restarts;
    exit_code_.reset();
    begin_tally(newest);
    const Planted planted = world_.planted();
    if (planted == Planted::budget_reset)
        for (PastEnd& end : history_.ends)
            end.counted = false;
    if (planted == Planted::exclusion_forgotten)
        for (PastEnd& end : history_.ends)
            end.node.clear();
    fenced_at_ = world_.now() + (fenced_at - world_.clock(node_)).count();
    if (planted == Planted::begins_before_the_fence) {
        fenced_at_ = world_.now();
        for (View& view : views_)
            view.heard_at -= kLease - 4 * kPatience;
    }
    lost_node_ = newest->now.casting == node_ ? -1 : newest->now.casting;
    job_state_ = JobState::running;
    if (newest->generation < 0)
        return start_generation();
    cause_ = Cause::node_lost;
    cause_node_ = lost_node_;
    on_job(fit_nodes() >= world_.schedule().fewest ? JobEvent::node_missed : JobEvent::node_lost);
    end_if_over();
}

std::string Agent::describe() const {
    std::string text = node_name(node_) + (over_ ? " is over" : "") + ", node state " +
                       std::to_string(static_cast<int>(node_state_)) + ", generation " +
                       std::to_string(start_ ? start_->generation : -1);
    if (!leads_)
        return text;
    text += ", head of generation " + std::to_string(current_->generation) + ", job state " +
            std::to_string(static_cast<int>(job_state_)) + ":";
    for (const View& view : views_)
        text += " node" + std::to_string(view.voter.node) + (view.takes_part ? "*" : "") +
                (view.running ? " runs" : "") + (view.ended ? " ended" : "") +
                (is_gone(view.voter.node) ? " gone" : "") + ",";
    return text;
}

void Agent::begin_tally(const RecordPointer& record) {
    if (current_ != record)
        taken_over_ = taken_over_ && record->generation < 0;
    current_ = record;
    views_.clear();
    for (const Voter& voter : record->now.voters) {
        const auto node = static_cast<std::size_t>(voter.node);
        const bool takes_part =
            node < record->ranks_per_node.size() && record->ranks_per_node[node] > 0;
        views_.push_back({.voter = voter,
                          .takes_part = takes_part,
                          .running = !takes_part,
                          .ended = !takes_part,
                          .heard_at = world_.now()});
    }
    cause_.reset();
    cause_node_ = lost_node_ = -1;
    all_zero_ = true;
    generation_over_ = false;
    order_.reset();
    ++job_timer_serial_;
    if (record->generation >= 0)
        job_state_ = JobState::starting;
}

void Agent::on_job(JobEvent event) {
    const JobTransition next = transition(job_state_, event);
    job_state_ = next.next;
    act(next.action);
}

void Agent::act(JobAction action) {
    switch (action) {
        case JobAction::none:
            return;
        case JobAction::ask_ranks_to_stop:
        case JobAction::ask_ranks_to_save:
        case JobAction::terminate_ranks:
            order(false);
            return job_timer_in(kGrace, JobEvent::grace_over);
        case JobAction::kill_ranks:
            order(true);
            return job_timer_in(kHung, JobEvent::hung);
        case JobAction::wait_to_restart:
            return job_timer_in(std::max(delay_, fenced_at_ - world_.now()), JobEvent::wait_over);
        case JobAction::start_generation:
            ++restarts_;
            return start_generation();
        case JobAction::finish:
            return finish(exit_code_.value_or(kFailed));
        case JobAction::give_up:
            return finish(kHungCode);
    }
}

void Agent::job_timer_in(std::int64_t ms, JobEvent event) {
    world_.after(static_cast<int>(std::max<std::int64_t>(ms, 0)),
                 {.kind = Kind::job_timer,
                  .machine = static_cast<std::int8_t>(node_),
                  .start = world_.machine(node_).start,
                  .number = static_cast<int>(event),
                  .more = ++job_timer_serial_});
}

void Agent::job_timer(JobEvent event, int serial) {
    if (!leads_ || over_ || serial != job_timer_serial_)
        return;
    on_job(event);
    schedule_wake();
}

bool Agent::is_gone(int node) const {
    return std::find(gone_.begin(), gone_.end(), node) != gone_.end();
}

int Agent::fit_nodes() const {
    int fit = 0;
    for (const View& view : views_)
        fit += is_gone(view.voter.node) ? 0 : 1;
    return fit;
}

void Agent::start_generation() {
    GenerationRecord next;
    next.now.casting = node_;
    next.now.has_witness = world_.schedule().has_witness;
    next.gone = gone_;
    for (const View& view : views_)
        if (!is_gone(view.voter.node))
            next.now.voters.push_back(view.voter);
    for (const Voter& newcomer : newcomers_) {
        if (next.now.find(newcomer.node) != nullptr)
            continue;
        next.now.voters.push_back(newcomer);
        std::erase(next.gone, newcomer.node);
    }
    std::sort(next.now.voters.begin(), next.now.voters.end(),
              [](const Voter& a, const Voter& b) { return a.node < b.node; });
    newcomers_.clear();
    lost_since_.clear();
    next.history = history_;
    next.restarts = restarts_;
    choose_nodes(next);
    succession::Effects effects;
    succession_->propose(std::move(next), world_.clock(node_), effects);
    carry_out(std::move(effects));
}

// As the job's head chooses them, from what the record says of those that are there.
void Agent::choose_nodes(GenerationRecord& record) {
    const Schedule& schedule = world_.schedule();
    std::vector<Membership::Node> nodes;
    for (int node = 0; node < schedule.nodes; ++node)
        nodes.push_back({node_name(node), schedule.ranks});
    Membership members({.fewest = schedule.fewest,
                        .most = schedule.most,
                        .most_spares = schedule.nodes - schedule.most},
                       nodes, schedule.most, node_);
    for (int node = 0; node < schedule.nodes; ++node)
        if (record.now.find(node) == nullptr)
            members.lose(node);
    const auto unfit = unfit_nodes(record.history);
    members.leave_out(unfit);
    for (int node = 0; node < schedule.nodes; ++node)
        if (members.is_fit(node) && unfit.contains(node_name(node)))
            record.kept.push_back(node);
    record.ranks_per_node = members.choose().ranks_per_node;
}

// The end is a record like others: who is head next finds it, and begins nothing.
void Agent::finish(int exit_code) {
    world_.write_log(succession_->term().number, current_->generation, "job_ended");
    GenerationRecord last;
    last.now = current_->now;
    last.now.casting = node_;
    std::erase_if(last.now.voters, [&](const Voter& voter) { return is_gone(voter.node); });
    last.gone = gone_;
    last.history = history_;
    last.exit_code = exit_code;
    if (world_.planted() == Planted::ending_forgotten) {
        world_.invariants().leaves([&] {
            GenerationRecord told = last;
            told.generation = current_->generation + 1;
            return told;
        }());
        leads_ = false;
        over_ = true;
        return;
    }
    succession::Effects effects;
    succession_->propose(std::move(last), world_.clock(node_), effects);
    carry_out(std::move(effects));
}

void Agent::order(bool kill) {
    order_ = Order{current_->generation, kill};
    repeat_order();
}

void Agent::repeat_order() {
    if (!order_)
        return;
    for (const View& view : views_)
        if (!view.ended)
            world_.send(node_, view.voter, *order_);
}

void Agent::on_status(const Status& status) {
    if (!leads_ || status.term != succession_->term())
        return;
    const auto view = std::find_if(views_.begin(), views_.end(),
                                   [&](const View& one) { return one.voter == status.from; });
    if (view == views_.end())
        return;
    view->heard_at = world_.now();
    const bool is_current = status.generation == current_->generation;
    // One that has never begun it, and will not any more.
    const bool never_began = taken_over_ && status.generation < current_->generation;
    if (!is_current && !never_began)
        return;
    if (is_current && status.running && !std::exchange(view->running, true) &&
        std::all_of(views_.begin(), views_.end(), [](const View& one) { return one.running; }))
        on_job(JobEvent::started);
    // Without an error of its own its agent has ended them, for it did not hear from us.
    const bool cut_off = status.ended && !status.exited_zero && !status.failed;
    if (is_current && (status.failed || cut_off) && !cause_ &&
        (job_state_ == JobState::starting || job_state_ == JobState::running)) {
        cause_ = status.failed.value_or(Cause::network);
        cause_node_ = status.from.node;
        on_job(decide().action == RestartAction::restart ? JobEvent::rank_failed
                                                         : JobEvent::rank_failed_for_good);
    }
    if (status.ended && !std::exchange(view->ended, true))
        all_zero_ = all_zero_ && (never_began || status.exited_zero) && !never_began;
    end_if_over();
}

// Time in which this agent did not run is no silence of others.
void Agent::look_for_silence() {
    if (world_.now() - std::exchange(looked_at_, world_.now()) > kLease / 2)
        for (View& view : views_)
            view.heard_at = world_.now();
    for (const View& view : std::vector<View>(views_))
        if (view.voter.node != node_ && !is_gone(view.voter.node) &&
            world_.now() - view.heard_at > kLease)
            lose(view.voter.node, false);
}

// Those that were lost while the record was under way, which has them.
void Agent::lose_those_gone() {
    gone_ = current_->gone;
    for (const Voter& lost : std::exchange(lost_since_, {}))
        if (std::any_of(views_.begin(), views_.end(),
                        [&](const View& view) { return view.voter == lost; }))
            lose(lost.node, false);
}

void Agent::lose(int node, bool is_proved) {
    const auto view = std::find_if(views_.begin(), views_.end(),
                                   [&](const View& one) { return one.voter.node == node; });
    if (view == views_.end() || is_gone(node) || node == node_ || !current_)
        return;
    gone_.push_back(node);
    lost_since_.push_back(view->voter);
    const std::int64_t lives_until =
        (succession_->dismiss(node, world_.clock(node_)) - world_.clock(node_)).count();
    const bool took_part = view->takes_part;
    view->ended = true;
    if (!took_part || current_->generation < 0)
        return end_if_over();
    all_zero_ = false;
    fenced_at_ = std::max(fenced_at_, world_.now() + (is_proved ? kMargin : lives_until));
    if (world_.planted() == Planted::begins_before_the_fence)
        fenced_at_ = world_.now();
    const bool goes_on = fit_nodes() >= world_.schedule().fewest;
    if (!generation_over_) {
        cause_ = Cause::node_lost;
        cause_node_ = lost_node_ = node;
    }
    if (job_state_ == JobState::waiting) {
        if (goes_on)
            return job_timer_in(std::max(fenced_at_ - world_.now(), delay_), JobEvent::wait_over);
        exit_code_ = kNodesLost;
    }
    on_job(goes_on ? JobEvent::node_missed : JobEvent::node_lost);
    end_if_over();
}

Decision Agent::decide() const {
    EndRecord record;
    record.cause = cause_.value_or(Cause::killed);
    record.node = cause_node_ >= 0 ? node_name(cause_node_) : "";
    Situation situation{
        .record = record,
        .generation = current_->generation,
        .now = std::chrono::system_clock::time_point(std::chrono::milliseconds(world_.now())),
        .step = static_cast<std::int64_t>(world_.now()),  // it was never twice at the same
        .has_saved = true,
        .ran = std::chrono::milliseconds(0),
        .input_spent = false,
        .enough_nodes = record.cause == Cause::node_lost && fit_nodes() >= world_.schedule().fewest,
        .others_suffice = fit_nodes() > world_.schedule().fewest};
    return autolaunch::launcher::decide(restart_spec(world_.schedule().max_restarts), history_,
                                        situation);
}

bool Agent::all_have_ended() const {
    const auto has_ended = [](const View& one) { return one.takes_part && one.ended; };
    if (world_.planted() == Planted::begins_in_two_at_once && cause_)
        return std::any_of(views_.begin(), views_.end(), has_ended);
    return std::all_of(views_.begin(), views_.end(), [](const View& one) { return one.ended; });
}

void Agent::end_if_over() {
    if (!leads_ || generation_over_ || current_->generation < 0 || !all_have_ended())
        return;
    generation_over_ = true;
    order_.reset();
    if (!cause_ && all_zero_) {
        exit_code_ = kSuccess;
        return on_job(JobEvent::all_ended);
    }
    world_.write_log(succession_->term().number, current_->generation, "generation_ended");
    const Decision decision = decide();
    delay_ = decision.delay.count();
    const bool drops = taken_over_ && world_.planted() == Planted::certificate_dropped;
    if (!drops)
        history_.ends.push_back(decision.end);
    if (decision.action != RestartAction::restart) {
        exit_code_ = cause_ == Cause::node_lost ? kNodesLost : kFailed;
        on_job(job_state_ == JobState::restarting ? JobEvent::no_restart
                                                  : JobEvent::rank_failed_for_good);
    } else {
        on_job(job_state_ == JobState::failing ? JobEvent::restart_after_all
                                               : JobEvent::rank_failed);
    }
    order_.reset();
    on_job(JobEvent::all_ended);
}

}  // namespace simulation
