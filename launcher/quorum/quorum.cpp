#include "quorum/quorum.hpp"

#include <asio/post.hpp>

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace autolaunch::launcher {

namespace {

using namespace succession;
using std::chrono::milliseconds;

constexpr milliseconds kLeastBeat{50}, kMostBeat{1000}, kLeastPatience{100}, kMostPatience{500};
constexpr milliseconds kMargin{1000};  // for the keeper and the guardian
constexpr milliseconds kLeastGiveUp{5000};
constexpr std::size_t kMostEarly = 1024;
constexpr std::size_t kFewVoters = 4;  // who may be two before long
// No generation has this number: those that have met know each other, and nothing has begun.
constexpr int kBeforeAll = -1;

// Also while the machine sleeps.
Moment now() {
    timespec time{};
    ::clock_gettime(CLOCK_BOOTTIME, &time);
    return std::chrono::duration_cast<Moment>(std::chrono::seconds(time.tv_sec) +
                                              std::chrono::nanoseconds(time.tv_nsec));
}

ControlConnectionOptions connection_options(const Quorum::Options& options) {
    ControlConnectionOptions connection;
    connection.silence_limit = options.lost_after;
    return connection;
}

}  // namespace

Quorum::Quorum(asio::io_context& io, Peers& peers, const Options& options, Handlers handlers)
    : io_(io),
      peers_(peers),
      options_(options),
      handlers_(std::move(handlers)),
      links_(io, {peers.identity, peers.key.value(), connection_options(options)}, *peers.door,
             {.on_word = [this](const Message& word) { hear(word); },
              .on_follower =
                  [this](const control::Follow& follow, const PeerDoor::Visitor& visitor) {
                      handlers_.take_follower(follow.node, visitor);
                  }}),
      witness_(options.folder, peers.incarnation),
      timer_(io) {}

Quorum::~Quorum() { stop(); }

SuccessionOptions Quorum::rule_options() const {
    SuccessionOptions rule;
    rule.self = {options_.node, peers_.incarnation};
    rule.lease = options_.lost_after;
    rule.margin = kMargin;
    rule.beat = std::clamp(options_.lost_after / 10, kLeastBeat, kMostBeat);
    rule.patience = std::clamp(options_.lost_after / 10, kLeastPatience, kMostPatience);
    rule.give_up = std::max(kLeastGiveUp, 3 * options_.lost_after);
    return rule;
}

void Quorum::start(std::vector<RecordedNode> nodes) {
    auto first = std::make_shared<GenerationRecord>();
    first->generation = kBeforeAll;
    for (std::size_t node = 0; node < nodes.size(); ++node)
        first->now.voters.push_back({static_cast<int>(node), peers_.incarnations.at(node)});
    first->now.formed = kBeforeAll;
    first->last = first->now;
    first->nodes = std::move(nodes);
    rule_.emplace(rule_options(), AcceptedRecord{{0, 0}, std::move(first)}, now());
    followed_ = rule_->term();
    learn_doors();
    for (const Message& word : std::exchange(early_, {}))
        hear(word);
    tick();
}

void Quorum::start_late() {
    is_late_ = true;
    rule_.emplace(rule_options(), now());
    for (const Message& word : std::exchange(early_, {}))
        hear(word);
}

void Quorum::stop() {
    if (std::exchange(stopped_, true))
        return;
    timer_.cancel();
    links_.stop();
    if (obeyed() == options_.node && newest() && newest()->exit_code)
        witness_.clear();
}

// Of the highest record that was accepted: a candidate asks its voters.
void Quorum::learn_doors() {
    const RecordPointer& record = rule_->accepted().record;
    if (record == known_ || !record)
        return;
    known_ = record;
    if (record->now.voters.size() <= kFewVoters)
        witness_.enter();
    for (std::size_t node = 0; node < record->nodes.size(); ++node)
        links_.know(static_cast<int>(node), record->nodes[node].door);
}

void Quorum::hear(const Message& word) {
    if (stopped_)
        return;
    if (!rule_) {
        if (early_.size() < kMostEarly)
            early_.push_back(word);
        return;
    }
    // A vote may tell of a record whose voters are to be asked at once.
    if (const auto* vote = std::get_if<Vote>(&word.what); vote && vote->accepted.record)
        for (std::size_t node = 0; node < vote->accepted.record->nodes.size(); ++node)
            links_.know(static_cast<int>(node), vote->accepted.record->nodes[node].door);
    Effects effects;
    rule_->receive(word, now(), effects);
    carry_out(std::move(effects));
    const std::optional<Term> of_head = std::visit(
        [](const auto& what) -> std::optional<Term> {
            using What = std::decay_t<decltype(what)>;
            if constexpr (std::is_same_v<What, Beat> || std::is_same_v<What, Propose> ||
                          std::is_same_v<What, Begin>)
                return what.term;
            else
                return std::nullopt;
        },
        word.what);
    const bool obeyed = of_head && *of_head == rule_->term() && is_member() && !is_head();
    if (!obeyed)
        return;
    const bool is_first = std::exchange(is_late_, false);
    if (*of_head == followed_)
        return;
    if (!is_first)
        return follow(*of_head);
    followed_ = *of_head;
    handlers_.came_to(of_head->node);
}

void Quorum::follow(Term term) {
    followed_ = term;
    links_.connect(term.node, [this, term](std::shared_ptr<ControlConnection> connection) {
        if (!connection && followed_ == term)
            followed_ = {};  // its next beat asks again
        if (!connection || followed_ != term || rule_->term() != term)
            return;
        connection->send(control::Follow{options_.node, peers_.incarnation, term.number});
        handlers_.follow(term.node, connection);
    });
}

void Quorum::head_link_lost(int head) {
    if (stopped_ || !rule_)
        return;
    Effects effects;
    rule_->link_lost(head, now(), effects);
    carry_out(std::move(effects));
    tick();
}

bool Quorum::propose(GenerationRecord next, const std::vector<int>& voters) {
    const GenerationRecord& newest = *rule_->accepted().record;
    for (const int node : voters) {
        if (const Voter* known = newest.now.find(node))
            next.now.voters.push_back(*known);
        else if (const auto come = admitted_.find(node); come != admitted_.end())
            next.now.voters.push_back({node, come->second});
    }
    next.now.casting = options_.node;
    if (next.now.voters.size() == 2)
        for (const Voter& voter : next.now.voters)
            if (voter.node != options_.node)
                next.now.has_witness = witness_.shares_folder_with(voter.incarnation);
    Effects effects;
    const bool taken = rule_->propose(std::move(next), now(), effects);
    carry_out(std::move(effects));
    return taken;
}

void Quorum::admit(int node, std::uint64_t incarnation) { admitted_[node] = incarnation; }

milliseconds Quorum::dismiss(int node) {
    if (!rule_)
        return kMargin;
    const Moment moment = now();
    const milliseconds left = rule_->dismiss(node, moment) - moment;
    tick();
    return left;
}

bool Quorum::is_backed() const { return is_head() && now() < rule_->ranks_end_at(now()); }

bool Quorum::has_begun(int generation) const {
    return rule_ && rule_->begun() && rule_->begun()->generation == generation;
}

milliseconds Quorum::ranks_may_live() const {
    const Moment moment = now();
    return std::clamp(rule_->ranks_end_at(moment) - moment, milliseconds(0), options_.lost_after);
}

void Quorum::tick() {
    if (stopped_ || !rule_)
        return;
    Effects effects;
    rule_->tick(now(), effects);
    carry_out(std::move(effects));
}

void Quorum::set_timer() {
    const Moment wake = rule_->next_wake();
    if (wake == Moment::max())
        return void(timer_.cancel());
    timer_.expires_after(std::max(wake - now(), milliseconds(1)));
    timer_.async_wait([this](const std::error_code& canceled) {
        if (!canceled)
            tick();
    });
}

// What is to be said goes out at once. The rest is posted: who is told of it may speak to us again.
void Quorum::carry_out(Effects&& effects) {
    learn_doors();
    for (Effect& effect : effects) {
        if (auto* send = std::get_if<SendTo>(&effect)) {
            links_.say(send->message);
            continue;
        }
        asio::post(io_, [this, alive = std::weak_ptr(alive_), effect = std::move(effect)] {
            if (!alive.expired() && !stopped_)
                carry_out(effect);
        });
    }
    set_timer();
}

void Quorum::carry_out(const Effect& effect) {
    if (const auto* start = std::get_if<Start>(&effect)) {
        for (const Voter& voter : start->record->now.voters)
            admitted_.erase(voter.node);
        handlers_.begin(start->record);
    } else if (const auto* end = std::get_if<EndRanks>(&effect)) {
        handlers_.end_ranks(end->why);
    } else if (std::holds_alternative<HoldRanks>(effect)) {
        handlers_.hold_ranks();
    } else if (std::holds_alternative<GoOn>(effect)) {
        handlers_.go_on();
    } else if (const auto* lead = std::get_if<Lead>(&effect)) {
        followed_ = rule_->term();
        handlers_.lead(lead->newest, std::max(lead->fenced_at - now(), milliseconds(0)));
    } else if (const auto* down = std::get_if<StandDown>(&effect)) {
        handlers_.stand_down(down->why);
    } else if (const auto* claim = std::get_if<ClaimWitness>(&effect)) {
        Effects more;
        rule_->witness_answered(claim->formed, witness_.claim(known_->began_ms, claim->formed),
                                now(), more);
        carry_out(std::move(more));
    } else if (const auto* leave = std::get_if<Leave>(&effect)) {
        handlers_.leave(leave->record);
    } else if (const auto* up = std::get_if<GiveUp>(&effect)) {
        handlers_.give_up(up->why, up->is_stranded);
    }
}

}  // namespace autolaunch::launcher
