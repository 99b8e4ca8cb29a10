#include "succession/succession.hpp"

#include <algorithm>
#include <memory>
#include <utility>

// A candidate, which reads from majorities what was accepted, and the head that it becomes: it
// commits that anew, and then what is to follow.

namespace autolaunch::launcher {

using namespace succession;

// ---- a candidate

// Its own vote is given with the last one that it takes: who finds the old head alive again, or
// comes back to one that is new, has promised nothing that keeps it from following.
void Succession::stand(Moment now, Effects& effects) {
    if (!accepted_.record || !accepted_.record->has_voter(options_.self))
        return give_up("the job has gone on without this node", effects);
    ++attempts_;
    highest_seen_ = std::max(highest_seen_, promised_.number) + 1;
    candidacy_ = {highest_seen_, options_.self.node};
    role_ = Role::candidate;
    stood_at_ = now;
    claimed_.clear();
    finishing_ = false;
    best_ = accepted_;
    read_committed_ = newest_committed();
    votes_.clear();
    votes_.add(options_.self);
    contacts_.clear();
    asked_at_ = now;
    ask_all(effects);
    win_if_backed(now, effects);
}

int Succession::newest_committed() const {
    return std::max(begun_ ? begun_->generation : -1, committed_ ? committed_->generation : -1);
}

void Succession::ask_all(Effects& effects) {
    send_to_voters(*best_.record, Ask{candidacy_}, effects);
}

void Succession::on(const Voter& from, const Vote& vote, Moment now, Effects& effects) {
    highest_seen_ = std::max(highest_seen_, vote.promised.number);
    if (role_ != Role::candidate || vote.term != candidacy_) {
        ++dropped_.of_older_terms;
        return;
    }
    // Once a record is committed, those of the generation before it are asked for nothing more.
    const RecordPointer& newer = vote.accepted.record;
    const bool is_committed = newer && newer->generation <= vote.committed;
    if (newer && best_.is_before(vote.accepted) &&
        !(is_committed ? newer->now.contains(options_.self) : newer->has_voter(options_.self)))
        return give_up("the job has gone on without this node", effects);
    if (!vote.granted)
        return;
    const RecordPointer before = best_.record;
    learn(vote.accepted);
    read_committed_ = std::max(read_committed_, vote.committed);
    if (before != best_.record)
        ask_all(effects);
    note_heard(from, stood_at_);
    note_stamp(from, vote.stamp, now);
    count(from);
    win_if_backed(now, effects);
}

// What a majority may have begun is gone on with. Its voters are asked as well, those of both its
// electorates: it may not have been committed, and another one in its place have been.
void Succession::learn(const AcceptedRecord& heard) {
    if (heard.record && best_.is_before(heard))
        best_ = heard;
}

void Succession::win_if_backed(Moment now, Effects& effects) {
    if (!has_read_enough(*best_.record, votes_))
        return;
    role_ = Role::head;
    promised_ = candidacy_;
    leads_ = false;
    begun_ = begun_ && begun_->generation >= best_.record->generation ? begun_ : nullptr;
    fenced_at_ = now + options_.lease + options_.margin;
    beat_at_ = now;
    put_forward(best_.record, now, effects);
}

// Of two, one is left, or believes so: the file decides, once and for all, who of them may go on
// without the other.
void Succession::claim_if_alone(Effects& effects) {
    const auto claim = [&](const Electorate& electorate) {
        const bool is_claimed =
            std::find(claimed_.begin(), claimed_.end(), electorate.formed) != claimed_.end();
        if (!electorate.needs_witness() || is_claimed || decides(electorate, votes_) ||
            !is_majority(electorate, votes_, true))
            return;
        claimed_.push_back(electorate.formed);
        effects.emplace_back(ClaimWitness{electorate.formed});
    };
    claim(best_.record->now);
    if (!is_known_committed())
        claim(best_.record->last);
}

void Succession::witness_answered(int formed, bool ours, Moment now, Effects& effects) {
    if (role_ != Role::candidate && role_ != Role::head)
        return;
    if (!ours) {
        if (role_ == Role::head)
            stand_down("the other node has gone on alone", now, effects);
        return give_up("the other node has gone on alone", effects);
    }
    witnessed_.push_back(formed);
    role_ == Role::head ? commit_if_accepted(now, effects) : win_if_backed(now, effects);
}

// A head of two that has given the other one up, or will have heard nothing of it for a lease, need
// not stand down to ask the witness.
void Succession::claim_if_left(Moment now, Effects& effects) {
    const bool is_left = now + 2 * options_.beat >= backed_at(now) + options_.lease;
    const auto claim = [&](const Electorate& electorate) {
        const bool is_claimed =
            std::find(claimed_.begin(), claimed_.end(), electorate.formed) != claimed_.end();
        const bool is_given_up =
            std::any_of(contacts_.begin(), contacts_.end(), [&](const Contact& known) {
                return known.is_dismissed && electorate.contains(known.voter);
            });
        if (!electorate.needs_witness() || is_claimed || (!is_given_up && !is_left))
            return;
        claimed_.push_back(electorate.formed);
        effects.emplace_back(ClaimWitness{electorate.formed});
    };
    if (committed_)
        claim(committed_->now);
    if (proposed_)
        claim(proposed_->now);
}

void Succession::tick_candidate(Moment now, Effects& effects) {
    last_look_ = now;
    if (now - headless_since_ >= options_.give_up)
        return strand(effects);
    if (now < asked_at_ + options_.patience)
        return;
    asked_at_ = now;
    claim_if_alone(effects);
    if (now - stood_at_ < 2 * options_.patience || !claimed_.empty())
        return ask_all(effects);
    role_ = Role::member;
    head_lost_ = true;
    stand_at_ = now + pause_before_standing();
}

// ---- the head

bool Succession::propose(GenerationRecord next, Moment now, Effects& effects) {
    if (role_ != Role::head || !leads_ || proposed_)
        return false;
    next.generation = std::max(next.generation, committed_->generation + 1);
    next.last = committed_->now;
    next.now.formed = next.now.voters == next.last.voters ? next.last.formed : next.generation;
    put_forward(std::make_shared<const GenerationRecord>(std::move(next)), now, effects);
    return true;
}

void Succession::put_forward(RecordPointer record, Moment now, Effects& effects) {
    proposed_ = std::move(record);
    proposed_at_ = now;
    accepted_ = {promised_, proposed_};
    votes_.clear();
    votes_.add(options_.self);
    send_to_voters(*proposed_, Propose{promised_, proposed_}, effects);
    commit_if_accepted(now, effects);
}

void Succession::on(const Voter& from, const Answer& answer, Moment now, Effects& effects) {
    highest_seen_ = std::max(highest_seen_, answer.promised.number);
    if (role_ != Role::head || answer.term != promised_) {
        ++dropped_.of_older_terms;
        return;
    }
    if (promised_ < answer.promised)
        return stand_down("another agent is head", now, effects);
    if (!proposed_ || answer.generation != proposed_->generation) {
        ++dropped_.of_older_generations;
        return;
    }
    if (!answer.accepted)
        return;
    note_stamp(from, answer.stamp, now);
    count(from);
    commit_if_accepted(now, effects);
}

void Succession::commit_if_accepted(Moment now, Effects& effects) {
    if (!proposed_)
        return;
    if (leads_ ? !is_backed(*proposed_, votes_) : !has_read_enough(*proposed_, votes_))
        return;
    committed_ = std::exchange(proposed_, nullptr);
    const bool was_read = !std::exchange(leads_, true);
    followed_ = promised_;
    if (committed_->exit_code) {
        begun_ = committed_;
        finishing_ = true;
        finish_at_ = now + options_.lease;
        end_ranks("the job is over", effects);
    } else if (was_read) {  // whoever had begun it has ended its ranks
        begun_ = committed_;
        effects.emplace_back(Lead{committed_, fenced_at_});
        return;
    }
    send_beats(now, effects);  // who has no lease does not begin
    send_to_voters(*committed_, Begin{promised_, committed_}, effects);
    finishing_ ? finish_if_known(now, effects) : begin(RecordPointer(committed_), effects);
}

// Who has not heard of it by then would find nobody to ask.
void Succession::finish_if_known(Moment now, Effects& effects) {
    const auto& voters = committed_->now.voters;
    const bool all_know = std::all_of(voters.begin(), voters.end(), [&](const Voter& voter) {
        return voter == options_.self || contact(voter).generation >= committed_->generation;
    });
    if (all_know || now >= finish_at_)
        leave(RecordPointer(committed_), effects);
}

Succession::Contact& Succession::contact(const Voter& voter) {
    const auto known = std::find_if(contacts_.begin(), contacts_.end(),
                                    [&](const Contact& one) { return one.voter == voter; });
    if (known != contacts_.end())
        return *known;
    contacts_.push_back({.voter = voter});
    return contacts_.back();
}

void Succession::note_heard(const Voter& from, Moment stamp) {
    Contact& known = contact(from);
    known.echoed = std::max(known.echoed, stamp);
}

void Succession::on(const Voter& from, const Heard& heard, Moment now, Effects& effects) {
    highest_seen_ = std::max(highest_seen_, heard.promised.number);
    if (role_ != Role::head) {
        ++dropped_.of_older_terms;
        return;
    }
    if (promised_ < heard.promised)
        return stand_down("another agent is head", now, effects);
    if (heard.term != promised_) {
        ++dropped_.of_older_terms;
        return;
    }
    note_heard(from, heard.echo);
    Contact& known = contact(from);
    note_stamp(from, heard.stamp, now);
    known.generation = std::max(known.generation, heard.generation);
    if (finishing_)
        finish_if_known(now, effects);
}

void Succession::note_stamp(const Voter& from, Moment stamp, Moment now) {
    Contact& known = contact(from);
    if (known.is_dismissed || (known.stamp && *known.stamp >= stamp))
        return;
    known.stamp = stamp;
    known.heard_at = now;
}

// Its lease is of a stamp that was on its way then, at the latest.
Moment Succession::dismiss(int node, Moment now) {
    Moment heard_at{0};
    for (Contact& known : contacts_) {
        if (known.voter.node != node)
            continue;
        known.is_dismissed = true;
        heard_at = std::max(heard_at, known.heard_at);
    }
    return std::max(now, heard_at + options_.lease) + options_.margin;
}

// The newest moment since which a majority has answered.
Moment Succession::backed_at(Moment now) const {
    const GenerationRecord& record = leads_ ? *committed_ : *best_.record;
    std::vector<const Contact*> newest;
    for (const Contact& one : contacts_)
        newest.push_back(&one);
    std::sort(newest.begin(), newest.end(),
              [](const Contact* a, const Contact* b) { return a->echoed > b->echoed; });
    Votes since;
    since.add(options_.self);
    if (decides(record.now, since))
        return now;
    for (const Contact* one : newest) {
        since.add(one->voter);
        if (decides(record.now, since))
            return std::min(now, one->echoed);
    }
    return Moment{0};
}

void Succession::send_beats(Moment now, Effects& effects) {
    beat_at_ = now + options_.beat;
    const RecordPointer& record = accepted_.record;
    const Moment backed = backed_at(now);
    const auto beat = [&](const Voter& voter) {
        const Contact& known = contact(voter);
        if (voter.node == options_.self.node || known.is_dismissed)
            return;
        send(voter,
             Beat{.term = promised_,
                  .generation = committed_ ? committed_->generation : -1,
                  .stamp = now,
                  .echo = known.stamp,
                  .age = now - backed},
             effects);
        if (proposed_ && !votes_.contains(voter.node))
            send(voter, Propose{promised_, proposed_}, effects);
        const bool has_begun = leads_ && !proposed_ && (has_ranks_ || finishing_);
        if (has_begun && known.stamp && known.generation < committed_->generation)
            send(voter, Begin{promised_, committed_}, effects);
    };
    for (const Voter& voter : record->now.voters)
        beat(voter);
    for (const Voter& voter : record->last.voters)
        if (proposed_ && !record->now.contains(voter))
            beat(voter);
}

void Succession::tick_head(Moment now, Effects& effects) {
    const bool overslept = has_overslept(now);
    if (overslept) {
        held_ = true;
        held_until_ = now + options_.lease;
        effects.emplace_back(HoldRanks{});
    }
    if (finishing_) {
        if (now >= beat_at_)
            send_beats(now, effects);
        return finish_if_known(now, effects);
    }
    claim_if_left(now, effects);
    const bool is_stuck = proposed_ && now - proposed_at_ >= options_.lease;
    const bool backed = has_followers(now) && !is_stuck;
    if (!backed && !(held_ && now < held_until_))
        return stand_down("no majority has answered for rendezvous.lost_after", now, effects);
    if (backed && !overslept && std::exchange(held_, false))
        effects.emplace_back(GoOn{});
    if (now >= beat_at_ || overslept)
        send_beats(now, effects);
}

void Succession::stand_down(std::string_view why, Moment now, Effects& effects) {
    end_ranks(why, effects);
    role_ = Role::member;
    head_lost_ = true;
    headless_since_ = now;
    proposed_.reset();
    finishing_ = false;
    stand_at_ = now + options_.patience;
    effects.emplace_back(StandDown{why});
}

}  // namespace autolaunch::launcher
