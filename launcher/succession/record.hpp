#pragma once
#include "restart_policy/restart_history.hpp"
#include "succession/electorate.hpp"

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace autolaunch::launcher {

/// The reign of one head. The number alone would let two candidates of one number both be head,
/// where their majorities are of different electorates: so each term is one node's from the start.
struct Term {
    int number = 0;
    int node = 0;
    auto operator<=>(const Term&) const = default;
};

/// A checkpoint, by the generation that published it.
struct CheckpointMark {
    int generation = 0;
    std::int64_t step = 0;
    bool operator==(const CheckpointMark&) const = default;
};

/// All that a head has to know, and all that agents have to agree on before a generation begins. It
/// never changes: a head that was followed is followed by new records.
struct GenerationRecord {
    int generation = 0;
    Electorate last;  ///< of the generation before: its majority must have accepted this one, too
    Electorate now;
    std::vector<int> ranks_per_node;           ///< as StartGeneration has it
    RestartHistory history;                    ///< how each generation before has ended
    std::vector<int> gone;                     ///< nodes that the job goes on without
    std::vector<int> kept;                     ///< that are not fit, and the job cannot do without
    std::optional<CheckpointMark> start_from;  ///< nothing: from the beginning
    std::optional<std::int64_t> checkpoint_step;  ///< that any generation has reported
    bool input_spent = false;                     ///< what came in on stdin is not there any more
    int restarts = 0;
    /// The job is over: no generation begins, and this is what it ends with.
    std::optional<int> exit_code;

    bool has_voter(const Voter& voter) const { return last.contains(voter) || now.contains(voter); }
    bool operator==(const GenerationRecord&) const = default;
};
using RecordPointer = std::shared_ptr<const GenerationRecord>;

/// A record, and under whom it was accepted last.
struct AcceptedRecord {
    Term term;
    RecordPointer record;

    bool is_before(const AcceptedRecord& other) const {
        return term != other.term ? term < other.term
                                  : record->generation < other.record->generation;
    }
};

/// By the votes of both its electorates. Pure.
inline bool is_accepted(const GenerationRecord& record, const Votes& votes, bool witnessed) {
    return is_majority(record.last, votes, witnessed) && is_majority(record.now, votes, witnessed);
}

}  // namespace autolaunch::launcher
