#include "simulation/planted_fault.hpp"

namespace simulation {

using namespace autolaunch::launcher;
using succession::Moment;

namespace {

class Broken final : public Succession {
public:
    template <class... Arguments>
    explicit Broken(Planted planted, Arguments&&... arguments)
        : Succession(std::forward<Arguments>(arguments)...), planted_(planted) {}

protected:
    bool is_backed(const GenerationRecord& record, const Votes& votes) const override {
        return planted_ == Planted::minority_commit || Succession::is_backed(record, votes);
    }
    // Whose the second vote is, is not looked at.
    void count(const Voter& voter) override {
        if (votes_.add(voter) || planted_ != Planted::vote_counted_twice || !accepted().record)
            return;
        for (const Voter& other : accepted().record->now.voters)
            if (votes_.add(other))
                return;
    }
    bool is_older(Term term) const override {
        return planted_ != Planted::stale_term_obeyed && Succession::is_older(term);
    }
    bool may_vote_for(Term term) const override {
        return planted_ == Planted::stale_term_obeyed || Succession::may_vote_for(term);
    }
    void learn(const AcceptedRecord& heard) override {
        if (planted_ != Planted::no_read_back)
            Succession::learn(heard);
    }
    bool has_read_enough(const GenerationRecord& record, const Votes& votes) const override {
        return planted_ == Planted::newest_electorate_only ? decides(record.now, votes)
                                                           : is_backed(record, votes);
    }
    bool has_followers(Moment now) const override {
        return planted_ == Planted::head_without_majority || Succession::has_followers(now);
    }

private:
    Planted planted_;
};

}  // namespace

std::string_view name_of(Planted planted) {
    switch (planted) {
        case Planted::none:
            return "none";
        case Planted::vote_counted_twice:
            return "vote_counted_twice";
        case Planted::minority_commit:
            return "minority_commit";
        case Planted::no_read_back:
            return "no_read_back";
        case Planted::newest_electorate_only:
            return "newest_electorate_only";
        case Planted::old_incarnation_votes:
            return "old_incarnation_votes";
        case Planted::stale_term_obeyed:
            return "stale_term_obeyed";
        case Planted::lease_ignored:
            return "lease_ignored";
        case Planted::head_without_majority:
            return "head_without_majority";
        case Planted::begins_before_the_fence:
            return "begins_before_the_fence";
        case Planted::unfenced_write:
            return "unfenced_write";
        case Planted::budget_reset:
            return "budget_reset";
        case Planted::exclusion_forgotten:
            return "exclusion_forgotten";
        case Planted::certificate_dropped:
            return "certificate_dropped";
        case Planted::ending_forgotten:
            return "ending_forgotten";
        case Planted::witness_for_both:
            return "witness_for_both";
        case Planted::begins_in_two_at_once:
            return "begins_in_two_at_once";
        case Planted::requeue_unproved:
            return "requeue_unproved";
        case Planted::requeue_blind:
            return "requeue_blind";
    }
    return "unknown";
}

std::unique_ptr<Succession> make_succession(Planted planted, const SuccessionOptions& options,
                                            const AcceptedRecord* first, Moment now) {
    if (planted == Planted::none)
        return first != nullptr ? std::make_unique<Succession>(options, *first, now)
                                : std::make_unique<Succession>(options, now);
    if (first != nullptr)
        return std::make_unique<Broken>(planted, options, *first, now);
    return std::make_unique<Broken>(planted, options, now);
}

}  // namespace simulation
