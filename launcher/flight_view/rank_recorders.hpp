#pragma once
#include "base/unique_fd.hpp"
#include "flight/flight_reader.hpp"
#include "flight/flight_summary.hpp"

#include <map>
#include <memory>
#include <vector>

namespace autolaunch::launcher {

/// What goes to the head of one recorder's contents: of each group its newest calls and the oldest
/// that are not over. Pure.
flight::RecordedRank summarize(int rank, bool ended, const flight::Contents& contents);

/// The flight recorders of a node's ranks in one generation, by the descriptors that the ranks gave
/// us: their memory outlives them here.
///
/// Owner: Generation. Threads: the agent's one. Blocks: never; reading a rank's takes some 100 us.
class RankRecorders {
public:
    /// What is no recorder's memory is closed. A rank's newest counts.
    void take(int rank, const std::shared_ptr<UniqueFd>& file);
    flight::RecordedRank read(int rank, bool ended) const;

private:
    std::map<int, std::shared_ptr<UniqueFd>> files_;
};

}  // namespace autolaunch::launcher
