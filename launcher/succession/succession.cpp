#include "succession/succession.hpp"

#include <algorithm>
#include <utility>

// What is common to all roles. A member's part is in succession_member.cpp, that of candidates and
// of the head in succession_head.cpp.

namespace autolaunch::launcher {

using namespace succession;

Succession::Succession(const SuccessionOptions& options, AcceptedRecord first, Moment now)
    : options_(options),
      role_(first.term.node == options.self.node ? Role::head : Role::member),
      promised_(first.term),
      accepted_(std::move(first)),
      followed_(promised_),
      lease_until_(now + options.lease),
      headless_since_(now),
      last_look_(now),
      highest_seen_(promised_.number),
      committed_(accepted_.record),
      leads_(true) {
    if (role_ != Role::head)
        return;
    for (const Voter& voter : committed_->now.voters)
        note_heard(voter, now);
}

Succession::Succession(const SuccessionOptions& options, Moment now)
    : options_(options), headless_since_(now), last_look_(now) {}

void Succession::receive(const Message& message, Moment now, Effects& effects) {
    if (!is_for_this_incarnation(message)) {
        ++dropped_.of_other_incarnations;
        return;
    }
    std::visit([&](const auto& what) { on(message.from, what, now, effects); }, message.what);
}

bool Succession::is_for_this_incarnation(const Message& message) const {
    if (message.to.incarnation != 0 && message.to.incarnation != options_.self.incarnation)
        return false;
    if (!accepted_.record)
        return true;
    // One of whom the newest record knows another start.
    const Voter* known = accepted_.record->now.find(message.from.node);
    return known == nullptr || *known == message.from ||
           accepted_.record->last.contains(message.from) ||
           std::holds_alternative<Begin>(message.what) ||
           std::holds_alternative<Propose>(message.what);
}

bool Succession::is_backed(const GenerationRecord& record, const Votes& votes) const {
    return decides(record.now, votes) && decides(record.last, votes);
}

bool Succession::decides(const Electorate& electorate, const Votes& votes) const {
    return is_majority(
        electorate, votes,
        std::find(witnessed_.begin(), witnessed_.end(), electorate.formed) != witnessed_.end());
}

void Succession::tick(Moment now, Effects& effects) {
    switch (role_) {
        case Role::member:
            return tick_member(now, effects);
        case Role::candidate:
            return tick_candidate(now, effects);
        case Role::head:
            return tick_head(now, effects);
        case Role::out:
            return;
    }
}

Moment Succession::next_wake() const {
    switch (role_) {
        case Role::member:
            if (held_)
                return held_until_;
            return head_lost_ ? stand_at_ : std::min(lease_until_, last_look_ + options_.lease / 2);
        case Role::candidate:
            return asked_at_ + options_.patience;
        case Role::head:
            return beat_at_;
        case Role::out:
            break;
    }
    return Moment::max();
}

Moment Succession::ranks_end_at(Moment now) const {
    return role_ == Role::head ? backed_at(now) + options_.lease : lease_until_;
}

void Succession::link_lost(int node, Moment now, Effects& effects) {
    if (role_ == Role::member && node == promised_.node && !head_lost_)
        lose_head("the connection to the head is gone", now, effects);
}

void Succession::send(const Voter& to, decltype(Message::what) what, Effects& effects) const {
    effects.emplace_back(SendTo{{options_.self, to, std::move(what)}});
}

void Succession::send_to_voters(const GenerationRecord& record, const decltype(Message::what)& what,
                                Effects& effects) const {
    for (const Voter& voter : record.now.voters)
        if (voter.node != options_.self.node)
            send(voter, what, effects);
    for (const Voter& voter : record.last.voters)
        if (voter.node != options_.self.node && !record.now.contains(voter))
            send(voter, what, effects);
}

void Succession::begin(const RecordPointer& record, Effects& effects) {
    waiting_.reset();
    begun_ = record;
    if (record->exit_code)
        return leave(record, effects);
    has_ranks_ = true;
    effects.emplace_back(Start{record});
}

void Succession::end_ranks(std::string_view why, Effects& effects) {
    held_ = false;
    waiting_.reset();
    if (std::exchange(has_ranks_, false))
        effects.emplace_back(EndRanks{why});
}

void Succession::leave(const RecordPointer& record, Effects& effects) {
    end_ranks("the job is over", effects);
    role_ = Role::out;
    ended_ = true;
    effects.emplace_back(Leave{record});
}

void Succession::give_up(std::string_view why, Effects& effects, bool is_stranded) {
    end_ranks(why, effects);
    role_ = Role::out;
    ended_ = true;
    effects.emplace_back(GiveUp{why, is_stranded});
}

void Succession::strand(Effects& effects) {
    give_up("no head was found that a majority follows", effects, true);
}

}  // namespace autolaunch::launcher
