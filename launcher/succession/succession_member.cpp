#include "succession/succession.hpp"

#include <algorithm>
#include <utility>

// A member: it votes, accepts, begins what was committed, and keeps its ranks for as long as it
// knows of a head that a majority follows.

namespace autolaunch::launcher {

using namespace succession;

bool Succession::hears_head(Moment now) const {
    if (role_ == Role::head)
        return has_followers(now);
    return role_ == Role::member && !head_lost_ && now < lease_until_;
}

// While a head lives and is heard, nobody else is voted for: one that is cut off, and comes back
// with a high term, disturbs nobody.
void Succession::on(const Voter& from, const Ask& ask, Moment now, Effects& effects) {
    if (role_ == Role::out || !accepted_.record)
        return;
    highest_seen_ = std::max(highest_seen_, ask.term.number);
    const bool is_repeated = ask.term == promised_ && ask.term.node == from.node;
    const bool grants = ask.term.node == from.node && accepted_.record->has_voter(from) &&
                        !hears_head(now) && may_vote_for(ask.term);
    if (is_older(ask.term))
        ++dropped_.of_older_terms;
    if (grants)
        obey(ask.term, now, effects);
    send(from,
         Vote{.term = ask.term,
              .granted = grants || is_repeated,
              .promised = promised_,
              .accepted = accepted_,
              .committed = newest_committed(),
              .stamp = now},
         effects);
}

// What is of an earlier term is over here: this agent's candidacy, its being head, its ranks.
void Succession::obey(Term term, Moment now, Effects& effects) {
    highest_seen_ = std::max(highest_seen_, term.number);
    if (promised_ == term && role_ != Role::candidate)
        return;
    if (role_ == Role::head)
        stand_down("another agent is head", now, effects);
    end_ranks("the job has another head", effects);
    promised_ = term;
    if (role_ == Role::member && !head_lost_)
        headless_since_ = now;
    role_ = Role::member;
    head_lost_ = true;  // until it beats
    claimed_.clear();
    // Its second beat has a lease for those, too, that have not voted for it: who stands before
    // that comes may depose it again and again.
    stand_at_ = now + pause_before_standing() + 2 * (options_.beat + options_.patience);
}

void Succession::on(const Voter& from, const Propose& propose, Moment now, Effects& effects) {
    const bool is_news = propose.term.node == from.node && !is_older(propose.term);
    if (!is_news) {
        ++dropped_.of_older_terms;
        return send(from, Answer{propose.term, propose.record->generation, false, promised_, now},
                    effects);
    }
    if (!propose.record->has_voter(options_.self)) {
        ++dropped_.of_strangers;
        return;
    }
    const AcceptedRecord offered{propose.term, propose.record};
    if (accepted_.record && offered.is_before(accepted_)) {
        ++dropped_.of_older_generations;
        return;
    }
    if (ended_)
        return;
    meet(now);
    obey(propose.term, now, effects);
    accepted_ = offered;
    send(from, Answer{propose.term, propose.record->generation, true, promised_, now}, effects);
}

// A Begin may have been long under way: without a lease it waits for the head's next word.
void Succession::on(const Voter& from, const Begin& begun, Moment now, Effects& effects) {
    if (is_older(begun.term) || begun.term.node != from.node) {
        ++dropped_.of_older_terms;
        return;
    }
    const AcceptedRecord offered{begun.term, begun.record};
    const bool is_old = (begun_ && begun.record->generation <= begun_->generation) ||
                        (accepted_.record && offered.is_before(accepted_));
    if (is_old) {
        ++dropped_.of_older_generations;
        return;
    }
    if (!begun.record->has_voter(options_.self)) {
        ++dropped_.of_strangers;
        return;
    }
    if (ended_)
        return;
    meet(now);
    obey(begun.term, now, effects);
    accepted_ = offered;
    if (begun.record->exit_code) {
        send(from,
             Heard{.term = begun.term,
                   .promised = promised_,
                   .generation = begun.record->generation,
                   .stamp = now,
                   .echo = Moment{0}},
             effects);
        return begin(begun.record, effects);
    }
    if (has_lease(now) && !head_lost_)
        return begin(begun.record, effects);
    waiting_ = begun.record;
}

void Succession::on(const Voter& from, const Beat& beat, Moment now, Effects& effects) {
    const bool is_old = is_older(beat.term) || beat.term.node != from.node;
    if (is_old)
        ++dropped_.of_older_terms;
    const int generation = begun_ ? begun_->generation : -1;
    if (role_ == Role::out || !accepted_.record)
        return;
    if (!is_old) {
        obey(beat.term, now, effects);
        if (role_ != Role::member)
            return;
        if (beat.echo && *beat.echo + options_.lease - beat.age > now) {
            lease_until_ = std::max(head_lost_ ? Moment{0} : lease_until_,
                                    *beat.echo + options_.lease - beat.age);
            head_lost_ = false;
            followed_ = promised_;
            attempts_ = 0;
            headless_since_ = now;
            if (std::exchange(held_, false))
                effects.emplace_back(GoOn{});
        }
        if (waiting_ && has_lease(now) && !head_lost_)
            begin(RecordPointer(waiting_), effects);
    }
    if (role_ == Role::member)
        send(from,
             Heard{.term = beat.term,
                   .promised = promised_,
                   .generation = begun_ ? begun_->generation : generation,
                   .stamp = now,
                   .echo = beat.stamp},
             effects);
}

// An agent that was started again is taken in.
void Succession::meet(Moment now) {
    if (role_ != Role::out)
        return;
    role_ = Role::member;
    head_lost_ = true;
    headless_since_ = now;
}

void Succession::lose_head(std::string_view why, Moment now, Effects& effects) {
    head_lost_ = true;
    headless_since_ = now;
    lease_until_ = Moment{0};
    end_ranks(why, effects);
    stand_at_ = now + pause_before_standing();
}

// Those that are first in the roster stand first, and have the time for it; who was not elected
// waits longer each time, and not as long as others.
Moment Succession::pause_before_standing() const {
    int place = 0;
    if (accepted_.record)
        for (const Voter& voter : accepted_.record->now.voters)
            place += voter.node < options_.self.node && voter.node != promised_.node ? 1 : 0;
    if (attempts_ == 0)
        return place * options_.patience;
    const auto mixed =
        static_cast<unsigned>(options_.self.node * 7 + attempts_ * 13) * 2654435761U >> 16;
    return options_.patience * (1 + mixed % (2U << std::min(attempts_, 3)));
}

// True once after the machine has slept, or this agent stood still. Nobody may have missed it:
// those who slept as well have not.
bool Succession::has_overslept(Moment now) {
    const Moment before = std::exchange(last_look_, now);
    return has_ranks_ && !held_ && now - before >= options_.lease;
}

void Succession::tick_member(Moment now, Effects& effects) {
    if (has_overslept(now)) {
        held_ = true;
        held_until_ = now + options_.lease;
        effects.emplace_back(HoldRanks{});
        return;
    }
    if (held_ && now < held_until_)
        return;
    if (!head_lost_ && (held_ || !has_lease(now)))
        lose_head("no head that a majority follows was heard of for rendezvous.lost_after", now,
                  effects);
    if (!head_lost_)
        return;
    if (now - headless_since_ >= options_.give_up)
        return strand(effects);
    if (now >= stand_at_)
        stand(now, effects);
}

}  // namespace autolaunch::launcher
