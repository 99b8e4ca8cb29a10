#include "simulation/agent.hpp"

#include <algorithm>
#include <chrono>
#include <type_traits>

// An agent as a node: what reaches it, and its own ranks. As the head: agent_head.cpp.

namespace simulation {

using namespace autolaunch::launcher;

namespace {

template <class... Ts>
struct Overloaded : Ts... {
    using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

SuccessionOptions options_of(const Voter& self) {
    SuccessionOptions options;
    options.self = self;
    options.lease = succession::Duration(kLease);
    options.margin = succession::Duration(kMargin);
    options.beat = succession::Duration(kBeat);
    options.patience = succession::Duration(kPatience);
    options.give_up = succession::Duration(kGiveUp);
    return options;
}

}  // namespace

Agent::Agent(World& world, int node, const Voter& self, const AcceptedRecord* first)
    : world_(world),
      node_(node),
      self_(self),
      succession_(make_succession(world.planted(), options_of(self), first, world.clock(node))),
      known_(first != nullptr ? first->record : nullptr),
      was_started_again_(first == nullptr),
      gone_(),
      history_() {
    if (is_head()) {
        leads_ = true;
        current_ = known_;
        begin_tally(current_);
        job_state_ = JobState::starting;
        start_generation();
    }
    schedule_wake();
}

void Agent::schedule_wake() {
    if (over_)
        return;
    Machine& machine = world_.machine(node_);
    const auto local = succession_->next_wake();
    if (local == succession::Moment::max())
        return;
    const double global = static_cast<double>(local.count() - machine.offset) / machine.rate;
    const std::int64_t at = std::max(world_.now(), static_cast<std::int64_t>(global) + 1);
    if (machine.wake_at >= world_.now() && machine.wake_at <= at)
        return;
    machine.wake_at = at;
    world_.after(static_cast<int>(at - world_.now()),
                 {.kind = Kind::wake, .machine = static_cast<std::int8_t>(node_)});
}

int Agent::ms_of_lease() const {
    const auto now = world_.clock(node_);
    const auto left = (succession_->ranks_end_at(now) - now).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, kLease));
}

void Agent::wake() {
    if (over_)
        return;
    succession::Effects effects;
    succession_->tick(world_.clock(node_), effects);
    carry_out(std::move(effects));
    if (leads_ && !over_) {
        look_for_silence();
        repeat_order();
        tell_status();  // to itself: nobody else asks it
    }
    schedule_wake();
}

void Agent::receive(Parcel&& parcel) {
    if (over_)
        return;
    std::visit(Overloaded{[&](succession::Message& message) {
                              const bool is_beat =
                                  std::holds_alternative<succession::Beat>(message.what);
                              if (world_.planted() == Planted::old_incarnation_votes)
                                  message.to.incarnation = 0;
                              succession::Effects effects;
                              succession_->receive(message, world_.clock(node_), effects);
                              carry_out(std::move(effects));
                              if (is_beat && !over_)
                                  tell_status();
                          },
                          [&](const Status& status) { on_status(status); },
                          [&](const Order& order) {
                              if (start_ && order.generation == start_->generation)
                                  on_node(order.kill ? NodeEvent::kill : NodeEvent::stop_failed);
                          },
                          [&](const Hello& hello) {
                              if (std::find(newcomers_.begin(), newcomers_.end(), hello.from) ==
                                  newcomers_.end())
                                  newcomers_.push_back(hello.from);
                          }},
               parcel);
    schedule_wake();
}

void Agent::link_lost(int node) {
    if (over_)
        return;
    succession::Effects effects;
    succession_->link_lost(node, world_.clock(node_), effects);
    carry_out(std::move(effects));
    if (leads_ && !over_)
        lose(node, true);
    schedule_wake();
}

void Agent::witness_answered(int formed, bool ours) {
    if (over_)
        return;
    succession::Effects effects;
    succession_->witness_answered(formed, ours, world_.clock(node_), effects);
    carry_out(std::move(effects));
    schedule_wake();
}

// Until a head has taken it in.
void Agent::say_hello() {
    if (over_ || known_)
        return;
    for (int node = 0; node < world_.schedule().nodes; ++node)
        if (node != node_)
            world_.send(node_, {node, 0}, Hello{self_});
    world_.after(1000, {.kind = Kind::hello,
                        .machine = static_cast<std::int8_t>(node_),
                        .start = world_.machine(node_).start});
}

void Agent::carry_out(succession::Effects&& effects) {
    if (succession_->accepted().record && succession_->accepted().record != known_) {
        known_ = succession_->accepted().record;
        world_.invariants().was_accepted(known_, self_);
    }
    for (succession::Effect& effect : effects) {
        if (over_)
            return;
        if (world_.tells())
            tell(effect);
        std::visit(
            Overloaded{
                [&](succession::SendTo& send) {
                    const Voter to = send.message.to;
                    world_.send(node_, to, std::move(send.message));
                },
                [&](const succession::Start& start) {
                    world_.invariants().begins(start.record, self_, is_head(), world_.now());
                    pending_ = start.record;
                    if (leads_)
                        begin_tally(start.record);
                    world_.train(start.record);
                    start_if_idle();
                    if (leads_)
                        lose_those_gone();
                },
                [&](const succession::Leave& leave) {
                    world_.invariants().leaves(*leave.record);
                    leads_ = false;
                    on_node(NodeEvent::finish);
                    over_ = true;
                },
                [&](const succession::EndRanks&) {
                    pending_.reset();
                    if (std::exchange(holds_, false))  // SIGKILL ends what is stopped
                        world_.machine(node_).stalled_until = world_.now() + kKnowsBy;
                    if (world_.planted() == Planted::lease_ignored && !leads_)
                        return;
                    zero_ = zero_ && !has_ranks(node_state_);
                    on_node(NodeEvent::kill);
                },
                [&](const succession::HoldRanks&) { holds_ = true; },
                [&](const succession::GoOn&) { holds_ = false; },
                [&](const succession::Lead& lead_now) {
                    lead(lead_now.newest, lead_now.fenced_at);
                },
                [&](const succession::StandDown&) {
                    leads_ = false;
                    ++job_timer_serial_;
                },
                [&](const succession::ClaimWitness& claim) { world_.claim(node_, claim.formed); },
                [&](const succession::GiveUp& up) {
                    leads_ = false;
                    on_node(NodeEvent::head_lost);
                    over_ = true;
                    if (up.is_stranded)
                        strand();
                }},
            effect);
    }
}

void Agent::strand() {
    Stranded stranded;
    for (int node = 0; node < world_.schedule().nodes; ++node)
        if (node != node_ &&
            (known_->now.find(node) != nullptr || known_->last.find(node) != nullptr))
            stranded.others.push_back({node_name(node), {}});
    stranded.term = succession_->followed().number;
    stranded.led = succession_->followed().node == node_;
    if (const RecordPointer& begun = succession_->begun()) {
        stranded.generation = begun->generation;
        stranded.had_ranks = begun->generation >= 0 && ranks_here(*begun) > 0;
    }
    world_.strand(node_, std::move(stranded), known_);
}

void Agent::tell(const succession::Effect& effect) const {
    const auto number = [](const RecordPointer& record) {
        return std::to_string(record->generation);
    };
    const std::string what = std::visit(
        Overloaded{[](const succession::SendTo&) { return std::string(); },
                   [&](const succession::Start& start) {
                       return "begins generation " + number(start.record);
                   },
                   [&](const succession::Leave& leave) {
                       return "leaves with exit code " + std::to_string(*leave.record->exit_code) +
                              ", after generation " + number(leave.record);
                   },
                   [](const succession::EndRanks& end) {
                       return "ends its ranks: " + std::string(end.why);
                   },
                   [](const succession::HoldRanks&) { return std::string("holds its ranks"); },
                   [](const succession::GoOn&) { return std::string("lets its ranks go on"); },
                   [&](const succession::Lead& lead_now) {
                       return "leads, from generation " + number(lead_now.newest);
                   },
                   [](const succession::StandDown& down) {
                       return "stands down: " + std::string(down.why);
                   },
                   [](const succession::ClaimWitness&) { return std::string("asks the witness"); },
                   [](const succession::GiveUp& up) { return "gives up: " + std::string(up.why); }},
        effect);
    if (!what.empty())
        world_.tell(node_name(node_) + " " + what + " (term " +
                    std::to_string(succession_->term().number) + " of " +
                    node_name(succession_->term().node) + ")");
}

// ---- its ranks

int Agent::ranks_here(const GenerationRecord& record) const {
    const auto node = static_cast<std::size_t>(node_);
    return node < record.ranks_per_node.size() ? record.ranks_per_node[node] : 0;
}

void Agent::start_if_idle() {
    if (!pending_ || node_state_ != NodeState::idle)
        return;
    start_ = std::exchange(pending_, nullptr);
    failed_.reset();
    told_running_ = told_ended_ = false;
    zero_ = true;
    if (ranks_here(*start_) > 0)
        on_node(NodeEvent::start);
    tell_status();
}

void Agent::on_node(NodeEvent event) {
    move_on(event);
    if (all_ended())
        move_on(NodeEvent::ranks_ended);
}

void Agent::move_on(NodeEvent event) {
    const NodeTransition next = transition(node_state_, event);
    node_state_ = next.next;
    act(next.action);
}

bool Agent::all_ended() const {
    if (ranks_to_start_ > 0)
        return false;
    for (const Process& process : world_.machine(node_).processes)
        if (process.lives())
            return false;
    return true;
}

void Agent::act(NodeAction action) {
    const auto timer = [&](int ms, NodeEvent event) {
        world_.after(ms, {.kind = Kind::node_timer,
                          .machine = static_cast<std::int8_t>(node_),
                          .start = world_.machine(node_).start,
                          .number = static_cast<int>(event),
                          .more = ++node_timer_serial_});
    };
    const auto all = [&](RankEvent event) {
        for (int rank = 0; rank < kMostRanks; ++rank)
            world_.apply(node_, rank, event);
    };
    switch (action) {
        case NodeAction::start_ranks:
            ranks_to_start_ = ranks_here(*start_);
            for (int rank = 0; rank < ranks_to_start_; ++rank) {
                Process& process = world_.machine(node_).processes[static_cast<std::size_t>(rank)];
                process.state = RankState::planned;
                process.generation = start_->generation;
                ++process.serial;
                world_.after(world_.dice().between(1, 30),
                             {.kind = Kind::start_rank,
                              .machine = static_cast<std::int8_t>(node_),
                              .start = process.serial,
                              .number = rank});
            }
            return;
        case NodeAction::tell_running:
            told_running_ = true;
            return tell_status();
        case NodeAction::glance_at_signals:
        case NodeAction::wait_in_doubt:
            return timer(10, NodeEvent::doubt_over);
        case NodeAction::report_failure:
            return tell_status();
        case NodeAction::ask_ranks_to_stop:
        case NodeAction::ask_ranks_to_leave:
        case NodeAction::terminate_ranks:
            ranks_to_start_ = 0;
            return all(RankEvent::peer_failed);
        case NodeAction::orphan_ranks:
        case NodeAction::kill_ranks:
            ranks_to_start_ = 0;
            return all(RankEvent::kill);
        case NodeAction::clear_up:
            return timer(1, NodeEvent::cleared);
        case NodeAction::tell_ended:
            told_ended_ = true;
            tell_status();
            return start_if_idle();
        case NodeAction::none:
        case NodeAction::await_release:
        case NodeAction::tell_and_await_release:
        case NodeAction::name_hung:
        case NodeAction::leave:
            return;
    }
}

void Agent::node_timer(NodeEvent event, int serial) {
    if (serial == node_timer_serial_)
        on_node(event);
    if (!over_)
        schedule_wake();
}

void Agent::rank_started(int) {
    if (ranks_to_start_ > 0 && --ranks_to_start_ == 0)
        on_node(NodeEvent::all_started);
}

void Agent::rank_ended(int, bool zero, std::optional<Cause> cause) {
    zero_ = zero_ && zero;
    if (cause && !failed_) {
        failed_ = cause;
        on_node(NodeEvent::rank_failed);
    } else if (all_ended()) {
        move_on(NodeEvent::ranks_ended);
    }
}

// To whoever is head, this agent included.
void Agent::tell_status() {
    Status status{.from = self_,
                  .term = succession_->term(),
                  .generation = start_ ? start_->generation : -1,
                  .running = told_running_,
                  .ended = node_state_ == NodeState::idle && !pending_,
                  .exited_zero = zero_,
                  .failed = node_state_ == NodeState::doubting ? std::nullopt : failed_};
    world_.send(node_, {succession_->term().node, 0}, status);
}

}  // namespace simulation
