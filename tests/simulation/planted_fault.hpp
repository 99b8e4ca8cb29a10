#pragma once
#include "succession/succession.hpp"

#include <array>
#include <memory>
#include <string_view>

namespace simulation {

/// A mistake that could be made, for the simulator to find.
enum class Planted {
    none,
    vote_counted_twice,       ///< a message that came twice is two votes
    minority_commit,          ///< the own vote is enough
    no_read_back,             ///< a candidate goes on from what it knows itself
    newest_electorate_only,   ///< a candidate asks no majority of the electorate before
    old_incarnation_votes,    ///< an agent that was started again votes as the one before
    stale_term_obeyed,        ///< what carries an older term is obeyed
    lease_ignored,            ///< a member keeps its ranks, whoever is silent
    head_without_majority,    ///< a head goes on where nobody answers
    begins_before_the_fence,  ///< a new head waits for nobody who is silent
    unfenced_write,           ///< the newest checkpoint counts, whoever has published it
    budget_reset,             ///< a new head begins with full restart budgets
    exclusion_forgotten,      ///< and with all nodes
    certificate_dropped,      ///< it does not write down how the generation before has ended
    ending_forgotten,         ///< the end of the job is nothing that others have to know
    witness_for_both,         ///< the file of a term can be had twice
    begins_in_two_at_once,    ///< ranks start while those of the generation before live
    requeue_unproved,         ///< a minority has the job started again, whoever may be alive
    requeue_blind,            ///< it believes the scheduler, and does not look at the head's log
};
inline constexpr std::array kPlanted = {Planted::vote_counted_twice,
                                        Planted::minority_commit,
                                        Planted::no_read_back,
                                        Planted::newest_electorate_only,
                                        Planted::old_incarnation_votes,
                                        Planted::stale_term_obeyed,
                                        Planted::lease_ignored,
                                        Planted::head_without_majority,
                                        Planted::begins_before_the_fence,
                                        Planted::unfenced_write,
                                        Planted::budget_reset,
                                        Planted::exclusion_forgotten,
                                        Planted::certificate_dropped,
                                        Planted::ending_forgotten,
                                        Planted::witness_for_both,
                                        Planted::begins_in_two_at_once,
                                        Planted::requeue_unproved,
                                        Planted::requeue_blind};
std::string_view name_of(Planted planted);

/// The rule of the product, or the same with one rule broken. `first` null: it was started again.
std::unique_ptr<autolaunch::launcher::Succession> make_succession(
    Planted planted, const autolaunch::launcher::SuccessionOptions& options,
    const autolaunch::launcher::AcceptedRecord* first,
    autolaunch::launcher::succession::Moment now);

}  // namespace simulation
