#include "simulation/world.hpp"

#include "simulation/agent.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace simulation {

using namespace autolaunch::launcher;
using autolaunch::fenced_by;
using autolaunch::Published;

namespace {

constexpr int kLookTime = 500, kNotice = 5000, kLongestLook = 30'000;  // of a scheduler's word
constexpr int kStepTime = 100, kStepsOfCheckpoint = 3;
constexpr std::int64_t kQuietTime =
    400'000;  // ms in which a job that nothing strikes comes to its end
constexpr int kCalmAfter = 10'000, kCalmLatency = 60;
constexpr char kRun[] = "job";
constexpr auto kNever = std::numeric_limits<std::int64_t>::max();

}  // namespace

World::World(const Schedule& schedule, Planted planted, bool tells)
    : schedule_(schedule),
      planted_(planted),
      tells_(tells),
      dice_(mix(schedule.seed, 2)),
      invariants_(schedule.max_restarts),
      machines_(static_cast<std::size_t>(schedule.nodes)),
      cut_(static_cast<std::size_t>(schedule.nodes),
           std::vector<bool>(static_cast<std::size_t>(schedule.nodes), false)) {
    auto joined = std::make_shared<GenerationRecord>();
    joined->generation = -1;
    joined->now.casting = 0;
    joined->now.has_witness = schedule.has_witness;
    for (int node = 0; node < schedule.nodes; ++node) {
        Machine& here = machine(node);
        here.rate = 1 + (dice_.between(-4, 4)) * 0.001;
        here.offset = dice_.between(0, 1'000'000);
        here.voter = {node, 100 + static_cast<std::uint64_t>(node)};
        here.start = 1;
        joined->now.voters.push_back(here.voter);
    }
    joined->last = joined->now;
    joined_ = joined;
    for (const Voter& voter : joined->now.voters)
        invariants_.was_accepted(joined_, voter);
    for (std::size_t i = 0; i < schedule_.blows.size(); ++i)
        after(schedule_.blows[i].at, {.kind = Kind::blow, .number = static_cast<int>(i)});
}

void World::start() {
    const AcceptedRecord first{{1, 0}, joined_};
    for (int node = schedule_.nodes - 1; node >= 0; --node)
        machine(node).agent = std::make_unique<Agent>(*this, node, machine(node).voter, &first);
}

World::~World() = default;

succession::Moment World::clock(int node) const {
    const Machine& here = machines_[static_cast<std::size_t>(node)];
    return succession::Moment(static_cast<std::int64_t>(static_cast<double>(now_) * here.rate) +
                              here.offset);
}

void World::tell(const std::string& what) const {
    if (tells_)
        std::fprintf(stderr, "%7lld  %s\n", static_cast<long long>(now_), what.c_str());
}

void World::after(int ms, Event event) {
    event.at = now_ + ms;
    event.order = order_++;
    queue_.push(event);
}

void World::wake(int node) {
    after(0, {.kind = Kind::wake, .machine = static_cast<std::int8_t>(node)});
    machine(node).wake_at = now_;
}

// ---- the network

bool World::is_calm() const {
    const std::int64_t last = schedule_.blows.empty() ? 0 : schedule_.blows.back().at;
    return now_ > last + kCalmAfter;
}

void World::send(int from, const Voter& to, Parcel&& parcel) {
    Dice luck(mix(schedule_.seed, 1000 + ++sent_));
    const bool is_own = from == to.node;
    const bool is_cut = cut_[static_cast<std::size_t>(from)][static_cast<std::size_t>(to.node)];
    if (is_cut || (!is_own && !is_calm() && luck.below(1000) < schedule_.loss_permille))
        return;
    const bool calm = is_calm();
    const int copies = !is_own && !calm && luck.below(1000) < schedule_.doubled_permille ? 2 : 1;
    for (int copy = 0; copy < copies; ++copy) {
        std::int32_t place = 0;
        if (free_parcels_.empty()) {
            place = static_cast<std::int32_t>(parcels_.size());
            parcels_.emplace_back(Order{});
        } else {
            place = free_parcels_.back();
            free_parcels_.pop_back();
        }
        parcels_[static_cast<std::size_t>(place)] = copy + 1 < copies ? parcel : std::move(parcel);
        after(is_own ? 0
                     : luck.between(
                           1, calm ? std::min(schedule_.slowest, kCalmLatency) : schedule_.slowest),
              {.kind = Kind::deliver,
               .machine = static_cast<std::int8_t>(to.node),
               .other = static_cast<std::int8_t>(from),
               .number = place});
    }
}

void World::deliver(const Event& event) {
    Parcel parcel = std::move(parcels_[static_cast<std::size_t>(event.number)]);
    parcels_[static_cast<std::size_t>(event.number)] = Order{};
    free_parcels_.push_back(event.number);
    Machine& here = machine(event.machine);
    const bool is_cut =
        cut_[static_cast<std::size_t>(event.other)][static_cast<std::size_t>(event.machine)];
    if (here.agent && here.is_on && !is_cut)
        here.agent->receive(std::move(parcel));
}

// ---- processes

void World::apply(int node, int rank, RankEvent event) {
    Process& process = machine(node).processes[static_cast<std::size_t>(rank)];
    const RankTransition next = transition(process.state, event);
    process.state = next.next;
    const bool is_kill = next.action == RankAction::send_kill;
    if (!is_kill && (next.action != RankAction::send_term || process.is_deaf))
        return;
    after(is_kill ? dice_.between(1, 20) : dice_.between(2, 120),
          {.kind = Kind::exit_rank,
           .machine = static_cast<std::int8_t>(node),
           .start = process.serial,
           .number = rank,
           .more = 0});
}

void World::exit_rank(int node, int rank, bool zero) {
    Machine& here = machine(node);
    Process& process = here.processes[static_cast<std::size_t>(rank)];
    process.state = transition(process.state, RankEvent::exited).next;
    process.is_deaf = false;
    if (here.agent)
        here.agent->rank_ended(rank, zero, std::nullopt);
}

void World::claim(int node, int formed) {
    const Voter& who = machine(node).voter;
    const auto known = std::find_if(witness_.begin(), witness_.end(),
                                    [&](const auto& file) { return file.first == formed; });
    const bool ours =
        known == witness_.end() || known->second == who || planted_ == Planted::witness_for_both;
    if (known == witness_.end())
        witness_.emplace_back(formed, who);
    if (ours)
        invariants_.witness_was_given(formed, who);
    if (tells_)
        tell("the witness of the two since generation " + std::to_string(formed) + " is " +
             (ours ? "node" + std::to_string(node) + "'s" : "another's"));
    after(dice_.between(1, 20), {.kind = Kind::witness,
                                 .machine = static_cast<std::int8_t>(node),
                                 .start = machine(node).start,
                                 .number = formed,
                                 .more = ours ? 1 : 0});
}

// ---- training

void World::train(const RecordPointer& record) {
    if (training_ && record->generation <= training_->generation)
        return;
    training_ = record;
    after(kStepTime, {.kind = Kind::step, .number = record->generation});
}

// As the library's Checkpointer does: the first rank looks for the newest checkpoint that counts,
// and says a moment later what it has found.
void World::load(int node) {
    const int generation = looking_ = training_->generation;
    const Published* newest = nullptr;
    for (const Published& one : published_)
        if ((planted_ == Planted::unfenced_write || fenced_by(starts_, one) == nullptr) &&
            (newest == nullptr || newest->step <= one.step))
            newest = &one;
    step_ = newest != nullptr ? newest->step : 0;
    invariants_.was_loaded(
        generation, newest != nullptr ? std::optional(newest->step) : std::nullopt, handled_);
    after(dice_.one_in(3) ? dice_.between(20, 900) : dice_.between(1, 30),
          {.kind = Kind::note_start,
           .machine = static_cast<std::int8_t>(node),
           .start = machine(node).processes[0].serial,
           .number = generation,
           .more = newest != nullptr ? static_cast<int>(newest->step) : -1});
}

// All ranks take part in each step. The first one's machine writes checkpoints: it looks whether it
// may, and renames later.
void World::step(int generation) {
    if (!training_ || training_->generation != generation)
        return;
    int first = -1;
    bool all = true, any = false;
    for (int node = 0; node < schedule_.nodes; ++node) {
        const int ranks = training_->ranks_per_node[static_cast<std::size_t>(node)];
        const Machine& here = machine(node);
        for (int rank = 0; rank < ranks; ++rank) {
            const Process& process = here.processes[static_cast<std::size_t>(rank)];
            const bool runs = process.lives() && process.generation == generation;
            all = all && runs && here.is_on && here.paused_until <= now_ &&
                  (!here.agent || !here.agent->holds());
            any = any || runs;
        }
        first = first < 0 && ranks > 0 ? node : first;
    }
    if (all && looking_ != generation)
        load(first);
    all = all && noted_ == generation;
    if (all && ++step_ % kStepsOfCheckpoint == 0)
        after(dice_.one_in(3) ? dice_.between(20, 900) : dice_.between(1, 30),
              {.kind = Kind::publish,
               .machine = static_cast<std::int8_t>(first),
               .start = machine(first).processes[0].serial,
               .number = generation,
               .more = static_cast<int>(step_)});
    if (all && step_ >= schedule_.steps) {
        for (int node = 0; node < schedule_.nodes; ++node)
            for (int rank = 0; rank < training_->ranks_per_node[static_cast<std::size_t>(node)];
                 ++rank)
                after(dice_.between(1, 30),
                      {.kind = Kind::exit_rank,
                       .machine = static_cast<std::int8_t>(node),
                       .start = machine(node).processes[static_cast<std::size_t>(rank)].serial,
                       .number = rank,
                       .more = 1});
        return;
    }
    if (any || now_ < 500 || invariants_.newest_generation() <= generation)
        after(kStepTime, {.kind = Kind::step, .number = generation});
}

// ---- another start of the whole job

// What the asker's side of a cut believes, Slurm says.
bool World::is_apart(int from, int node) const {
    const Machine& there = machines_[static_cast<std::size_t>(node)];
    const auto here = static_cast<std::size_t>(from), other = static_cast<std::size_t>(node);
    return !there.is_on || there.paused_until > now_ || cut_[here][other] || cut_[other][here];
}

bool World::refuses(const Voter& voter) const {
    const Machine& there = machines_[static_cast<std::size_t>(voter.node)];
    return !there.agent || there.agent->is_over() || there.voter != voter;
}

// A head that a majority follows, or an agent of the job in reach that could be.
bool World::may_go_on_elsewhere(int node) const {
    for (int other = 0; other < schedule_.nodes; ++other) {
        const Machine& there = machines_[static_cast<std::size_t>(other)];
        if (other == node || !there.is_on || there.paused_until > now_ || !there.agent ||
            there.agent->is_over() || !there.agent->succession().accepted().record)
            continue;
        const bool leads = there.agent->is_head() &&
                           there.agent->succession().ranks_end_at(clock(other)) > clock(other);
        if (leads || !is_apart(node, other))
            return true;
    }
    return false;
}

// Also one that is cut off, or stands still, and may be of the job again; not one that was started
// anew and has heard of nothing.
bool World::lives_elsewhere(int node) const {
    for (int other = 0; other < schedule_.nodes; ++other) {
        const Machine& there = machines_[static_cast<std::size_t>(other)];
        if (other != node && there.agent && !there.agent->is_over() &&
            there.agent->succession().accepted().record)
            return true;
    }
    return false;
}

void World::write_log(int term, int generation, const std::string& event) {
    log_.read("{\"time\":\"now\",\"generation\":" + std::to_string(generation) + ",\"event\":\"" +
              event + "\",\"term\":" + std::to_string(term) + "}");
}

void World::strand(int node, Stranded&& stranded, RecordPointer newest) {
    stranded_.push_back({node, machine(node).start, now_,
                         std::vector<std::int64_t>(static_cast<std::size_t>(schedule_.nodes), -1),
                         std::move(stranded), std::move(newest)});
    after(kLookTime, {.kind = Kind::requeue,
                      .machine = static_cast<std::int8_t>(node),
                      .start = machine(node).start,
                      .number = static_cast<int>(stranded_.size()) - 1});
}

void World::try_to_requeue(int number) {
    Waiting& waiting = stranded_[static_cast<std::size_t>(number)];
    std::set<std::string> refused, down;
    for (int node = 0; node < schedule_.nodes; ++node) {
        std::int64_t& since = waiting.apart_since[static_cast<std::size_t>(node)];
        const bool apart = node != waiting.node && is_apart(waiting.node, node);
        since = !apart ? -1 : since < 0 ? now_ : since;
        const Voter* voter = waiting.newest->now.find(node);
        voter = voter != nullptr ? voter : waiting.newest->last.find(node);
        if (voter == nullptr || node == waiting.node)
            continue;
        const std::string name = "node" + std::to_string(node);
        if (apart ? now_ - since >= kNotice : refuses(*voter))
            (apart ? down : refused).insert(name);
    }
    const bool is_proved = planted_ == Planted::requeue_unproved ||
                           not_proved_gone(waiting.what, refused, down).empty();
    // Without a folder that all share nobody can read it.
    const bool goes_on = planted_ != Planted::requeue_blind &&
                         (!schedule_.has_witness || log_.has_gone_on(waiting.what));
    if (goes_on || now_ - waiting.since > kLongestLook) {
        waiting.since = -1;
    } else if (is_proved) {
        requeued_ = true;
        invariants_.was_requeued(
            *waiting.newest, {may_go_on_elsewhere(waiting.node), lives_elsewhere(waiting.node)});
    } else {
        after(kLookTime, {.kind = Kind::requeue,
                          .machine = static_cast<std::int8_t>(waiting.node),
                          .start = machine(waiting.node).start,
                          .number = number});
    }
}

// ---- blows

int World::head_now() const {
    int head = 0;
    Term highest;
    for (int node = 0; node < schedule_.nodes; ++node) {
        const Machine& here = machines_[static_cast<std::size_t>(node)];
        if (!here.agent || !here.agent->is_head() || here.agent->succession().term() < highest)
            continue;
        highest = here.agent->succession().term();
        head = node;
    }
    return head;
}

void World::stop_agent(int node) {
    Machine& here = machine(node);
    here.agent.reset();
    here.wake_at = -1;
    for (Process& process : here.processes)  // that it was about to start
        process.serial += process.state == RankState::planned ? 1 : 0;
}

void World::start_agent(int node) {
    Machine& here = machine(node);
    if (here.agent || (!here.is_on && here.paused_until == kNever))
        return;
    const bool is_clean = std::none_of(here.processes.begin(), here.processes.end(),
                                       [](const Process& process) { return process.lives(); });
    if (!is_clean)
        return;
    here.is_on = true;
    ++here.start;
    here.voter.incarnation += planted_ == Planted::old_incarnation_votes ? 0 : 1000;
    if (planted_ == Planted::old_incarnation_votes) {  // as if it had never been away
        auto joined = std::make_shared<GenerationRecord>();
        joined->generation = -1;
        joined->now.has_witness = schedule_.has_witness;
        for (const Machine& one : machines_)
            joined->now.voters.push_back(one.voter);
        joined->last = joined->now;
        const int other = node == 0 ? 1 : 0;
        const AcceptedRecord first{{1, other}, joined};
        here.agent = std::make_unique<Agent>(*this, node, here.voter, &first);
        return;
    }
    here.agent = std::make_unique<Agent>(*this, node, here.voter, nullptr);
    here.agent->say_hello();
}

void World::pause(int node, int ms) {
    Machine& here = machine(node);
    if (!here.is_on)
        return;
    here.paused_until = std::max(here.paused_until, now_ + ms);
    here.stalled_until = here.paused_until + kKnowsBy;
    after(static_cast<int>(here.paused_until - now_),
          {.kind = Kind::wake, .machine = static_cast<std::int8_t>(node)});
    if (ms >= kLease)  // its keeper finds out at its first breath, too
        after(static_cast<int>(here.paused_until - now_) + 5,
              {.kind = Kind::keeper,
               .machine = static_cast<std::int8_t>(node),
               .start = here.start,
               .more = 1});
    here.wake_at = here.paused_until;
}

void World::strike(const BlowAt& blow) {
    ++blows_done_;
    const int node = blow.node < 0 ? head_now() : blow.node;
    Machine& here = machine(node);
    tell(name_of(blow.what) + " node" + std::to_string(node) + " for " +
         std::to_string(blow.lasts) + " ms");
    const auto cut_from = [&](bool both) {
        for (int other = 0; other < schedule_.nodes; ++other) {
            if (other == node)
                continue;
            cut_[static_cast<std::size_t>(node)][static_cast<std::size_t>(other)] = true;
            if (both)
                cut_[static_cast<std::size_t>(other)][static_cast<std::size_t>(node)] = true;
        }
    };
    switch (blow.what) {
        case Blow::kill_agent:
            if (!here.agent || !here.is_on)
                return;
            if (here.agent->holds())  // its ranks are stopped until the keeper comes
                here.stalled_until = std::max(here.stalled_until, now_ + 2 * kKnowsBy);
            stop_agent(node);
            after(dice_.between(1, 50), {.kind = Kind::keeper,
                                         .machine = static_cast<std::int8_t>(node),
                                         .start = here.start});
            for (int other = 0; other < schedule_.nodes; ++other)
                if (other != node &&
                    !cut_[static_cast<std::size_t>(node)][static_cast<std::size_t>(other)])
                    after(dice_.between(1, 8), {.kind = Kind::link_lost,
                                                .machine = static_cast<std::int8_t>(other),
                                                .start = machine(other).start,
                                                .number = node});
            return;
        case Blow::power_off:
            stop_agent(node);
            here.is_on = false;
            for (Process& process : here.processes)
                process.state = RankState::ended;
            return;
        case Blow::restart:
            return start_agent(node);
        case Blow::pause_machine:
            return pause(node, blow.lasts);
        case Blow::pause_all:
            for (int one = 0; one < schedule_.nodes; ++one)
                pause(one, blow.lasts);
            return;
        case Blow::pause_agent:
            if (!here.agent)
                return;
            here.agent_paused_until = std::max(here.agent_paused_until, now_ + blow.lasts);
            // Its keeper does what the agent cannot.
            return after(here.agent->ms_of_lease(), {.kind = Kind::keeper,
                                                     .machine = static_cast<std::int8_t>(node),
                                                     .start = here.start,
                                                     .more = 1});
        case Blow::cut:
            return cut_from(true);
        case Blow::cut_one_way:
            return cut_from(false);
        case Blow::heal:
            for (auto& row : cut_)
                row.assign(row.size(), false);
            return;
        case Blow::fail_rank:
        case Blow::fail_gpu:
            if (here.processes[0].lives())
                after(0, {.kind = Kind::fail_rank,
                          .machine = static_cast<std::int8_t>(node),
                          .start = here.processes[0].serial,
                          .more = static_cast<int>(
                              blow.what == Blow::fail_gpu ? Cause::gpu : Cause::program_error)});
            return;
        case Blow::hang_rank:
            here.processes[0].is_deaf = here.processes[0].lives();
            return;
    }
}

// ---- time

bool World::is_deferred(const Event& event) {
    if (event.machine < 0)
        return false;
    const Machine& here = machine(event.machine);
    std::int64_t until = here.paused_until;
    const bool is_agents = event.kind != Kind::exit_rank && event.kind != Kind::publish &&
                           event.kind != Kind::keeper && event.kind != Kind::fail_rank &&
                           event.kind != Kind::note_start;
    if (is_agents)
        until = std::max(until, here.agent_paused_until);
    if (until <= now_)
        return false;
    Event later = event;
    later.at = until;
    later.order = order_++;
    queue_.push(later);
    if (event.kind == Kind::wake)
        machine(event.machine).wake_at = until;
    return true;
}

void World::handle(const Event& event) {
    if (event.kind == Kind::blow)
        return strike(schedule_.blows[static_cast<std::size_t>(event.number)]);
    if (event.kind == Kind::step)
        return step(event.number);
    if (is_deferred(event))
        return;
    Machine& here = machine(event.machine);
    if (event.kind == Kind::deliver)
        return deliver(event);
    if (!here.is_on)
        return;
    Process* const process = event.number >= 0 && event.number < kMostRanks
                                 ? &here.processes[static_cast<std::size_t>(event.number)]
                                 : nullptr;
    const bool is_agents = here.agent && event.start == here.start;
    switch (event.kind) {
        case Kind::wake:
            if (here.agent && event.at == here.wake_at) {
                here.wake_at = -1;
                here.agent->wake();
            }
            return;
        case Kind::start_rank:
            if (!here.agent || process->serial != event.start ||
                process->state != RankState::planned)
                return;
            process->state = transition(process->state, RankEvent::started).next;
            return here.agent->rank_started(event.number);
        case Kind::exit_rank:
            if (process->serial == event.start && process->lives())
                exit_rank(event.machine, event.number, event.more == 1);
            return;
        case Kind::fail_rank:
            if (process->serial != event.start || !process->lives())
                return;
            process->state = transition(process->state, RankEvent::exited).next;
            if (here.agent)
                here.agent->rank_ended(event.number, false, static_cast<Cause>(event.more));
            return;
        case Kind::node_timer:
            if (is_agents)
                here.agent->node_timer(static_cast<NodeEvent>(event.number), event.more);
            return;
        case Kind::job_timer:
            if (is_agents)
                here.agent->job_timer(static_cast<JobEvent>(event.number), event.more);
            return;
        case Kind::publish:
            if (here.processes[0].serial == event.start && here.processes[0].lives()) {
                published_.push_back({{kRun, event.number}, event.more});
                invariants_.was_published(event.number, event.more, handled_);
            }
            return;
        case Kind::note_start:
            if (here.processes[0].serial != event.start || !here.processes[0].lives())
                return;
            starts_.push_back(
                {{kRun, event.number},
                 event.more < 0 ? std::nullopt : std::optional<std::int64_t>(event.more)});
            invariants_.was_noted(event.number);
            noted_ = std::max(noted_, static_cast<int>(event.number));
            return;
        case Kind::keeper:
            if (event.start != here.start || (event.more == 1 && here.agent_paused_until <= now_))
                return;
            if (event.more == 1 && here.agent && here.agent->holds())
                here.stalled_until = std::max(here.stalled_until, now_ + 2 * kKnowsBy);
            if (event.more == 1)
                stop_agent(event.machine);
            for (int rank = 0; rank < kMostRanks; ++rank)
                apply(event.machine, rank, RankEvent::kill);
            return;
        case Kind::link_lost:
            if (is_agents)
                here.agent->link_lost(event.number);
            return;
        case Kind::witness:
            if (is_agents)
                here.agent->witness_answered(event.number, event.more == 1);
            return;
        case Kind::requeue:
            if (event.start == here.start)
                try_to_requeue(event.number);
            return;
        case Kind::hello:
            if (is_agents)
                here.agent->say_hello();
            return;
        case Kind::deliver:
        case Kind::step:
        case Kind::blow:
            return;
    }
}

// No rank in two generations: where one of a later generation lives, none of an earlier one does,
// but on a machine that stands still, or has only just found out that it did.
void World::check() {
    int newest = -1;
    for (const Machine& here : machines_)
        for (const Process& process : here.processes)
            if (process.lives())
                newest = std::max(newest, process.generation);
    for (std::size_t node = 0; node < machines_.size(); ++node) {
        const Machine& here = machines_[node];
        const bool knows = here.stalled_until <= now_ && !(here.agent && here.agent->holds());
        for (const Process& process : here.processes)
            if (process.lives() && process.generation < newest && knows)
                throw Violation("a rank of generation " + std::to_string(process.generation) +
                                " lives on node" + std::to_string(node) + " beside generation " +
                                std::to_string(newest));
    }
}

void World::run() {
    const std::int64_t last = schedule_.blows.empty() ? 0 : schedule_.blows.back().at;
    const auto is_open = [](const Machine& here) {
        return here.agent && !here.agent->is_over() && here.agent->succession().accepted().record;
    };
    while (!queue_.empty()) {
        const Event event = queue_.top();
        queue_.pop();
        now_ = event.at;
        ++handled_;
        handle(event);
        check();
        if (requeued_)
            return;
        const bool waits = std::any_of(stranded_.begin(), stranded_.end(), [&](const Waiting& one) {
            return one.since >= 0 && machine(one.node).start == one.start &&
                   machine(one.node).is_on;
        });
        if (is_quiet() && !waits && std::none_of(machines_.begin(), machines_.end(), is_open))
            return;
        if (now_ > last + kQuietTime)
            throw Violation("the job neither ends nor goes on, " +
                            std::to_string(kQuietTime / 1000) + " s after the last blow");
    }
}

void World::describe() {
    for (const Machine& here : machines_)
        if (tells_ && here.agent)
            tell(here.agent->describe());
}

std::optional<std::string> run_schedule(const Schedule& schedule, Planted planted,
                                        std::uint64_t* events, bool tells) {
    World world(schedule, planted, tells);
    std::optional<std::string> wrong;
    try {
        world.start();
        world.run();
    } catch (const Violation& found) {
        wrong = std::to_string(world.now()) + " ms: " + found.what();
        world.describe();
    }
    if (events != nullptr)
        *events += world.events();
    return wrong;
}

// Each blow is left out, and stays out where it goes wrong without it.
std::vector<std::size_t> shrink(const Schedule& schedule, Planted planted) {
    std::vector<std::size_t> kept(schedule.blows.size());
    for (std::size_t i = 0; i < kept.size(); ++i)
        kept[i] = i;
    for (bool again = true; again;) {
        again = false;
        for (std::size_t i = kept.size(); i-- > 0;) {
            std::vector<std::size_t> fewer = kept;
            fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
            if (!run_schedule(with_blows(schedule, fewer), planted))
                continue;
            kept = std::move(fewer);
            again = true;
        }
    }
    return kept;
}

}  // namespace simulation
