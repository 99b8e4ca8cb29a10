#pragma once
#include "causes/rank_end.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A failure of a generation, or several of one node that are alike.
struct Failure {
    EndRecord record;            ///< its `alike`: how many more ranks of the node
    bool asked_to_stop = false;  ///< it ended after that; its words tell of something before
    // When it ended, by the head's clock: the head hears of it `latest` at the latest, and its
    // connection to the node takes no longer than the difference.
    std::chrono::microseconds earliest{0}, latest{0};
};

/// A rank that has not failed.
struct Bystander {
    int rank = -1;
    std::string node;
    std::chrono::milliseconds ran{0};
};

/// What else is known where ranks waited for one another.
struct Waiting {
    int world_size = 1;
    std::string culprit;               ///< "rank 3 has not entered all_reduce #2"; empty: unknown
    std::vector<int> missing;          ///< the ranks that it names
    std::vector<Bystander> finishers;  ///< ended with 0 while others went on
    std::vector<Bystander> survivors;  ///< went on until they were stopped
};

struct RootCause {
    std::size_t index = 0;  ///< of the failure that counts
    EndRecord record;       ///< its rank may be another one than the failure's, which only waited
    std::string absent;     ///< then, who that is: "rank 3 has not entered all_reduce #2"
};

/// Which of a generation's failures was the others' reason, over all nodes. Followers are passed
/// over where anything else is known, whenever they were heard of. There is one failure at least.
/// Pure.
RootCause find_root_cause(const std::vector<Failure>& failures, const Waiting& waiting);

/// Of a rank that had been asked to stop: what its words say happened before that; nothing where
/// they tell of the stop, or of a peer. Pure.
std::optional<EndRecord> judge_stopped(const RankEnd& rank);

/// Failures of one node, those alike folded into the earliest, at most `most`. Pure.
template <class T, class RecordOf>
std::vector<T> fold_alike(std::vector<T> failures, std::size_t most, RecordOf record_of) {
    std::vector<T> folded;
    for (auto& failure : failures) {
        const EndRecord& record = record_of(failure);
        bool is_new = true;
        for (auto& known : folded)
            if (EndRecord& earlier = record_of(known);
                is_new && earlier.follows == record.follows &&
                error_signature(earlier) == error_signature(record)) {
                earlier.alike += 1 + record.alike;
                is_new = false;
            }
        if (is_new && folded.size() < most)
            folded.push_back(std::move(failure));
    }
    return folded;
}

}  // namespace autolaunch::launcher
