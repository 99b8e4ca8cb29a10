#pragma once
#include "restart_policy/restart_history.hpp"
#include "succession/electorate.hpp"

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// The reign of one head. The number alone would let two candidates of one number both be head,
/// where their majorities are of different electorates: so each term is one node's from the start.
struct Term {
    int number = 0;
    int node = 0;
    auto operator<=>(const Term&) const = default;
};

/// A node of the job, also of one that is gone: its number is its place among them.
struct RecordedNode {
    std::string name;
    int ranks = 1;     ///< that it starts where it takes part
    std::string door;  ///< "address:port", where its agent hears the others; empty: it is gone
    bool operator==(const RecordedNode&) const = default;
};

/// All that a head has to know, and all that agents have to agree on before a generation begins. It
/// never changes: a head that was followed is followed by new records.
struct GenerationRecord {
    int generation = 0;
    Electorate last;  ///< of the generation before: its majority must have accepted this one, too
    Electorate now;
    std::vector<RecordedNode> nodes;  ///< all that ever were in the job
    std::vector<int> ranks_per_node;  ///< as StartGeneration has it
    std::vector<int> order;           ///< nodes that take part, in that of their seats
    RestartHistory history;           ///< how each generation before has ended
    std::vector<int> gone;            ///< nodes that the job goes on without
    std::vector<int> kept;            ///< that are not fit, and the job cannot do without
    std::vector<std::pair<std::string, std::string>> unfit;  ///< names left out, and why
    std::optional<std::int64_t> checkpoint_step;  ///< the newest that any generation has reported
    bool input_spent = false;                     ///< what came in on stdin is not there any more
    int restarts = 0;
    std::int64_t began_ms = 0;  ///< when the job did, since 1970
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
