#pragma once
#include "spec/job_spec.hpp"

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// "all", "none" or a rank, as trainer.stdin and --stdin have it; nothing for other text. Pure.
std::optional<InputSpec> input_from(std::string_view text);

/// Some ranks of a job.
struct RankSet {
    bool all = false;
    std::vector<std::pair<int, int>> ranges;  ///< first and last; empty with `all`

    bool contains(int rank) const;
    int highest() const;  ///< that is named; -1 with `all`
};

/// "all" or "0,3-5"; nothing for other text. Pure.
std::optional<RankSet> rank_set_from(std::string_view text);

}  // namespace autolaunch::launcher
