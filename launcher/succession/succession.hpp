#pragma once
#include "succession/effect.hpp"
#include "succession/electorate.hpp"
#include "succession/record.hpp"
#include "succession/succession_message.hpp"

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

struct SuccessionOptions {
    Voter self;
    succession::Duration lease{10'000};    ///< rendezvous.lost_after
    succession::Duration margin{1'000};    ///< for the keeper and the guardian, beyond it
    succession::Duration beat{1'000};      ///< well below the lease
    succession::Duration patience{500};    ///< for a candidate's votes, before the next one stands
    succession::Duration give_up{30'000};  ///< so long without a head, and this agent ends
};

/// One agent's part in the rule of docs/adr/0017: one head, and no generation that a majority does
/// not know of. A message, the time or news of a link go in; effects come out. No clock, no socket,
/// no file: those are the caller's, who carries out the effects in their order.
///
/// Owner: an agent. Threads: one. Blocks: never.
class Succession {
public:
    using Moment = succession::Moment;
    using Effects = succession::Effects;

    /// All agents of the job have accepted `first`, whose term says who is head; it names those
    /// that have met, and no generation has begun.
    Succession(const SuccessionOptions& options, AcceptedRecord first, Moment now);
    /// Of an agent that was started again: it knows nothing, until a head takes it in.
    Succession(const SuccessionOptions& options, Moment now);
    virtual ~Succession() = default;

    void receive(const succession::Message& message, Moment now, Effects& effects);
    /// At next_wake(), or earlier.
    void tick(Moment now, Effects& effects);
    Moment next_wake() const;
    /// Nothing more comes from that agent over the link that was: at once what silence tells late.
    void link_lost(int node, Moment now, Effects& effects);
    void witness_answered(int formed, bool ours, Moment now, Effects& effects);
    /// The head's: the record that is to follow the newest one. The last electorate is filled in,
    /// and the generation where its number is not higher than the newest. False: this agent is not
    /// head, or the one before is not committed yet.
    bool propose(GenerationRecord next, Moment now, Effects& effects);

    /// The head's: that node is given up, and hears of no lease any more. When no rank of it lives
    /// there, whatever it has heard last.
    Moment dismiss(int node, Moment now);

    /// By then whoever watches this agent must have ended its ranks, unless a later time was given.
    Moment ranks_end_at(Moment now) const;

    bool is_head() const { return role_ == Role::head; }
    bool has_ranks() const { return has_ranks_; }
    Term term() const { return promised_; }
    /// Of the newest head from which this agent had a lease, or that it was itself.
    Term followed() const { return followed_; }
    const AcceptedRecord& accepted() const { return accepted_; }
    /// The newest that has begun here; null: none.
    const RecordPointer& begun() const { return begun_; }
    const succession::Dropped& dropped() const { return dropped_; }

protected:
    // The rules, each by itself: a test that breaks one shows what it is for.
    virtual bool is_backed(const GenerationRecord& record, const Votes& votes) const;
    virtual void count(const Voter& voter) { votes_.add(voter); }
    virtual bool is_older(Term term) const { return term < promised_; }
    virtual void learn(const AcceptedRecord& heard);
    virtual bool is_for_this_incarnation(const succession::Message& message) const;
    virtual bool may_vote_for(Term term) const { return promised_ < term; }
    /// Of a candidate's best_. Whatever follows a record that was committed has asked its voters.
    virtual bool has_read_enough(const GenerationRecord& record, const Votes& votes) const {
        return is_known_committed() ? decides(record.now, votes) : is_backed(record, votes);
    }
    bool is_known_committed() const { return best_.record->generation <= read_committed_; }
    virtual bool has_followers(Moment now) const { return now < backed_at(now) + options_.lease; }
    bool decides(const Electorate& electorate, const Votes& votes) const;

    std::vector<int> witnessed_;  ///< Electorate::formed, of those whose file is ours
    Votes votes_;                 ///< for the candidacy, then for the record that is proposed
    AcceptedRecord best_;         ///< the highest that a candidate has read

private:
    enum class Role { member, candidate, head, out };

    void on(const Voter& from, const succession::Ask& ask, Moment now, Effects& effects);
    void on(const Voter& from, const succession::Vote& vote, Moment now, Effects& effects);
    void on(const Voter& from, const succession::Propose& propose, Moment now, Effects& effects);
    void on(const Voter& from, const succession::Answer& answer, Moment now, Effects& effects);
    void on(const Voter& from, const succession::Begin& begin, Moment now, Effects& effects);
    void on(const Voter& from, const succession::Beat& beat, Moment now, Effects& effects);
    void on(const Voter& from, const succession::Heard& heard, Moment now, Effects& effects);

    void obey(Term term, Moment now, Effects& effects);
    void begin(const RecordPointer& record, Effects& effects);
    void end_ranks(std::string_view why, Effects& effects);
    void lose_head(std::string_view why, Moment now, Effects& effects);
    void tick_member(Moment now, Effects& effects);
    bool hears_head(Moment now) const;
    bool has_lease(Moment now) const { return now < lease_until_; }
    bool has_overslept(Moment now);
    Moment pause_before_standing() const;
    void leave(const RecordPointer& record, Effects& effects);
    void meet(Moment now);
    void give_up(std::string_view why, Effects& effects, bool is_stranded = false);
    void strand(Effects& effects);

    void stand(Moment now, Effects& effects);
    void ask_all(Effects& effects);
    void win_if_backed(Moment now, Effects& effects);
    void claim_if_alone(Effects& effects);
    void tick_candidate(Moment now, Effects& effects);
    void put_forward(RecordPointer record, Moment now, Effects& effects);
    void commit_if_accepted(Moment now, Effects& effects);
    void tick_head(Moment now, Effects& effects);
    void send_beats(Moment now, Effects& effects);
    int newest_committed() const;
    void note_heard(const Voter& from, Moment stamp);
    void note_stamp(const Voter& from, Moment stamp, Moment now);
    void finish_if_known(Moment now, Effects& effects);
    void claim_if_left(Moment now, Effects& effects);
    Moment backed_at(Moment now) const;
    void stand_down(std::string_view why, Moment now, Effects& effects);

    void send(const Voter& to, decltype(succession::Message::what) what, Effects& effects) const;
    void send_to_voters(const GenerationRecord& record,
                        const decltype(succession::Message::what)& what, Effects& effects) const;

    SuccessionOptions options_;
    Role role_ = Role::out;
    Term promised_;  ///< the highest that was voted for or obeyed: nothing of an earlier one is
    AcceptedRecord accepted_;  ///< the highest; a null record: none
    RecordPointer begun_;
    Term followed_;
    bool has_ranks_ = false;
    succession::Dropped dropped_;

    // A member's.
    Moment lease_until_{0}, headless_since_{0}, stand_at_{0}, last_look_{0}, held_until_{0};
    bool head_lost_ = false, held_ = false;
    bool ended_ = false;  ///< this agent has left, or given up: nobody takes it in again
    int attempts_ = 0;
    RecordPointer waiting_;  ///< committed, and the lease was over when it came

    // A candidate's.
    Term candidacy_;
    int read_committed_ = -1;  ///< the newest generation of which a voter knows that it was
    Moment stood_at_{0}, asked_at_{0};
    int highest_seen_ = 0;
    std::vector<int>
        claimed_;  ///< Electorate::formed, of which the witness was asked; a head's, too

    // A head's.
    struct Contact {
        Voter voter;
        Moment echoed{0};                  ///< our newest stamp that has come back
        std::optional<Moment> stamp = {};  ///< its newest
        int generation = -1;               ///< the newest that has begun there
        Moment heard_at{0};                ///< when its newest stamp came
        bool is_dismissed = false;
    };
    Contact& contact(const Voter& voter);

    std::vector<Contact> contacts_;
    RecordPointer proposed_;   ///< not committed yet
    RecordPointer committed_;  ///< the newest
    bool leads_ = false;       ///< what was read was committed anew
    bool finishing_ = false;   ///< the job is over, and not all have said that they know
    Moment fenced_at_{0}, beat_at_{0}, finish_at_{0}, proposed_at_{0};
};

}  // namespace autolaunch::launcher
