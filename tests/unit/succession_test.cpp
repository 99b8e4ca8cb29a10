// Who is head, message by message. What only many orders of messages show: tests/simulation.

#include "succession/succession.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace succession_test {

using namespace autolaunch::launcher;
using namespace autolaunch::launcher::succession;

namespace {

constexpr Duration kLease{1000}, kMargin{200}, kBeat{200}, kPatience{100}, kGiveUp{5000};

Voter voter(int node) { return {node, 7U + static_cast<unsigned>(node)}; }

Electorate electorate(int nodes, int casting = 0, bool has_witness = false) {
    Electorate made;
    for (int node = 0; node < nodes; ++node)
        made.voters.push_back(voter(node));
    made.casting = casting;
    made.has_witness = has_witness;
    return made;
}

Votes votes_of(std::initializer_list<int> nodes) {
    Votes votes;
    for (const int node : nodes)
        votes.add(voter(node));
    return votes;
}

/// Agents, and a network that delivers at once, but for those that are cut off.
class Job {
public:
    explicit Job(int nodes, bool has_witness = false) {
        auto joined = std::make_shared<GenerationRecord>();
        joined->generation = -1;
        joined->now = joined->last = electorate(nodes, 0, has_witness);
        for (int node = 0; node < nodes; ++node)
            agents_.push_back(std::make_unique<Succession>(
                SuccessionOptions{voter(node), kLease, kMargin, kBeat, kPatience, kGiveUp},
                AcceptedRecord{{1, 0}, joined}, now_));
        did_.resize(agents_.size());
        cut_.resize(agents_.size());
    }
    Succession& operator[](int node) { return *agents_[static_cast<std::size_t>(node)]; }
    void cut(int node, bool off = true) { cut_[static_cast<std::size_t>(node)] = off; }

    bool propose(int node, const Electorate& next, std::optional<int> exit_code = {}) {
        GenerationRecord record;
        record.now = next;
        record.exit_code = exit_code;
        Effects effects;
        const bool done = (*this)[node].propose(std::move(record), now_, effects);
        take(node, std::move(effects));
        deliver();
        return done;
    }
    void link_lost(int lost) {
        for (int node = 0; node < static_cast<int>(agents_.size()); ++node) {
            if (node == lost || cut_[static_cast<std::size_t>(node)])
                continue;
            Effects effects;
            (*this)[node].link_lost(lost, now_, effects);
            take(node, std::move(effects));
        }
        deliver();
    }
    void witness(int node, int formed, bool ours) {
        Effects effects;
        (*this)[node].witness_answered(formed, ours, now_, effects);
        take(node, std::move(effects));
        deliver();
    }
    /// Ticks of 20 ms.
    void run(int ms, std::vector<int> asleep = {}) {
        for (int passed = 0; passed < ms; passed += 20) {
            now_ += Duration(20);
            for (int node = 0; node < static_cast<int>(agents_.size()); ++node) {
                if (std::find(asleep.begin(), asleep.end(), node) != asleep.end() ||
                    (*this)[node].next_wake() > now_)
                    continue;
                Effects effects;
                (*this)[node].tick(now_, effects);
                take(node, std::move(effects));
                deliver();
            }
        }
    }
    template <class T>
    int count(int node) const {
        int found = 0;
        for (const Effect& effect : did_[static_cast<std::size_t>(node)])
            found += std::holds_alternative<T>(effect) ? 1 : 0;
        return found;
    }
    template <class T>
    const T& newest(int node) const {
        for (auto at = did_[static_cast<std::size_t>(node)].rbegin();; ++at)
            if (const T* effect = std::get_if<T>(&*at))
                return *effect;
    }
    void give(int node, Message message) {
        Effects effects;
        (*this)[node].receive(message, now_, effects);
        take(node, std::move(effects));
        deliver();
    }
    Moment now() const { return now_; }

private:
    void take(int node, Effects&& effects) {
        for (Effect& effect : effects) {
            if (const auto* send = std::get_if<SendTo>(&effect))
                under_way_.push_back(send->message);
            did_[static_cast<std::size_t>(node)].push_back(std::move(effect));
        }
    }
    void deliver() {
        while (!under_way_.empty()) {
            const Message message = under_way_.front();
            under_way_.pop_front();
            if (cut_[static_cast<std::size_t>(message.from.node)] ||
                cut_[static_cast<std::size_t>(message.to.node)])
                continue;
            Effects effects;
            (*this)[message.to.node].receive(message, now_, effects);
            take(message.to.node, std::move(effects));
        }
    }

    Moment now_{100'000};
    std::vector<std::unique_ptr<Succession>> agents_;
    std::vector<Effects> did_;
    std::vector<bool> cut_;
    std::deque<Message> under_way_;
};

}  // namespace

TEST_CASE("a majority: more than half, half with the casting vote, two of two and a witness") {
    CHECK(is_majority(electorate(3), votes_of({1, 2}), false));
    CHECK_FALSE(is_majority(electorate(3), votes_of({0}), false));
    CHECK(is_majority(electorate(4), votes_of({0, 3}), false));
    CHECK_FALSE(is_majority(electorate(4), votes_of({1, 3}), false));
    CHECK(is_majority(electorate(4), votes_of({1, 2, 3}), false));
    CHECK(is_majority(electorate(2), votes_of({0}), false));
    CHECK_FALSE(is_majority(electorate(2), votes_of({1}), false));
    const Electorate pair = electorate(2, 0, true);
    CHECK_FALSE(is_majority(pair, votes_of({0}), false));
    CHECK(is_majority(pair, votes_of({1}), true));
    CHECK(is_majority(pair, votes_of({0, 1}), false));
}

TEST_CASE("votes of strangers, of other incarnations and of the same node again do not count") {
    Votes votes = votes_of({0});
    CHECK_FALSE(votes.add(voter(0)));
    votes.add({1, 99});
    votes.add({7, 1});
    CHECK_FALSE(is_majority(electorate(3), votes, false));
}

TEST_CASE("a generation begins once a majority has accepted its record, everywhere") {
    Job job(3);
    job.cut(2);
    CHECK(job.propose(0, electorate(3)));
    CHECK(job.count<Start>(0) == 1);
    CHECK(job.count<Start>(1) == 1);
    CHECK(job.count<Start>(2) == 0);
    job.cut(2, false);
    job.run(500);
    CHECK(job.count<Start>(2) == 1);
}

TEST_CASE("without a majority none begins, and its head stands down after the lease") {
    Job job(3);
    job.cut(1), job.cut(2);
    CHECK(job.propose(0, electorate(3)));
    CHECK(job.count<Start>(0) == 0);
    CHECK_FALSE(job.propose(0, electorate(3)));  // one at a time
    job.run(1100);
    CHECK(job.count<StandDown>(0) == 1);
    CHECK_FALSE(job[0].is_head());
}

TEST_CASE(
    "a reset is known at once: the first of those that are left leads, from the newest record") {
    Job job(3);
    job.propose(0, electorate(3));
    job.run(400);
    job.cut(0);
    job.link_lost(0);
    CHECK(job.count<EndRanks>(1) == 1);
    CHECK(job.count<EndRanks>(2) == 1);
    job.run(40);
    REQUIRE(job.count<Lead>(1) == 1);
    const Lead lead = job.newest<Lead>(1);
    CHECK(lead.newest->generation == 0);
    CHECK(lead.fenced_at >= job.now() + kLease);
    CHECK(job[1].term() == Term{2, 1});
    job.propose(1, electorate(3, 1));
    CHECK(job.count<Start>(2) == 2);
}

TEST_CASE("a head that comes back stands down, and what it still says is dropped and counted") {
    Job job(3);
    job.propose(0, electorate(3));
    job.run(400);
    job.cut(0);
    job.link_lost(0);
    job.run(40);
    job.propose(1, electorate(3, 1));
    job.cut(0, false);
    job.run(400);
    CHECK(job.count<StandDown>(0) == 1);
    CHECK(job.count<EndRanks>(0) == 1);
    CHECK(job[2].dropped().of_older_terms > 0);
    CHECK(job[0].term() == Term{2, 1});
}

TEST_CASE("who hears no head for the lease ends its ranks, and gives up in time") {
    Job job(3);
    job.propose(0, electorate(3));
    job.run(400);
    job.cut(2);
    job.run(1200);
    CHECK(job.count<EndRanks>(2) == 1);
    CHECK(job[0].is_head());
    job.run(6000);
    CHECK(job.count<GiveUp>(2) == 1);
    CHECK(job.count<EndRanks>(0) == 0);
}

TEST_CASE("a machine that slept holds its ranks until it hears that nobody has missed it") {
    Job job(3);
    job.propose(0, electorate(3));
    job.run(400);
    job.run(1500, {0, 1, 2});  // the job was suspended
    job.run(600);
    for (int node = 0; node < 3; ++node) {
        CHECK(job.count<HoldRanks>(node) == 1);
        CHECK(job.count<GoOn>(node) == 1);
        CHECK(job.count<EndRanks>(node) == 0);
    }
}

TEST_CASE("while a head lives nobody else is voted for") {
    Job job(3);
    job.propose(0, electorate(3));
    job.run(400);
    job.give(2, {voter(1), voter(2), Ask{{9, 1}}});
    CHECK(job[2].term() == Term{1, 0});
    CHECK(job.count<EndRanks>(2) == 0);
}

TEST_CASE("of two the witness decides, once and for all") {
    for (const bool ours : {true, false}) {
        Job job(2, true);
        job.propose(0, electorate(2, 0, true));
        job.run(400);
        job.cut(0);
        job.link_lost(0);
        job.run(300);
        REQUIRE(job.count<ClaimWitness>(1) == 1);
        CHECK(job.newest<ClaimWitness>(1).formed == 0);
        job.witness(1, 0, ours);
        CHECK(job.count<Lead>(1) == (ours ? 1 : 0));
        CHECK(job.count<GiveUp>(1) == (ours ? 0 : 1));
    }
}

TEST_CASE("without one the head goes on alone, and the other does not") {
    Job job(2);
    job.propose(0, electorate(2));
    job.run(400);
    job.cut(1);
    job.run(7000);
    CHECK(job[0].is_head());
    CHECK(job.count<GiveUp>(1) == 1);
    CHECK(job.propose(0, electorate(1)));
    CHECK(job.count<Start>(0) == 2);
}

TEST_CASE("the end of the job is a record: all leave with it, and a next head begins nothing") {
    Job job(3);
    job.propose(0, electorate(3));
    job.run(400);
    job.propose(0, electorate(3), 5);
    for (int node = 0; node < 3; ++node) {
        CHECK(job.count<Leave>(node) == 1);
        CHECK(job.newest<Leave>(node).record->exit_code == 5);
    }
}

TEST_CASE("a node that was given up lives no longer than the lease that it may have") {
    Job job(3);
    job.propose(0, electorate(3));
    job.run(400);
    CHECK(job[0].dismiss(2, job.now()) > job.now() + kMargin);
    job.cut(1);
    job.run(kLease.count() + 200);
    CHECK(job[0].dismiss(1, job.now()) == job.now() + kMargin);
}

}  // namespace succession_test
