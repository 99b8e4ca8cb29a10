#pragma once
#include "progress/rank_activity.hpp"
#include "progress/step_watch.hpp"

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// What shows that the ranks of a node get on which report no steps: what they print, bytes that
/// they read and write, and the node's network. CPU time shows nothing: who waits may spin. Of all
/// its ranks together, because often one alone prints.
///
/// Owner: StandstillWatch. Threads: the agent's one. Blocks: never; reads /proc and looks at files.
class SignsOfLife {
public:
    using Ranks = std::vector<std::pair<int, pid_t>>;
    using Moment = StepWatch::Moment;

    SignsOfLife() = default;
    /// `told`: a limit by the user's word.
    SignsOfLife(std::filesystem::path run_dir, int generation, std::optional<StepWatch::Time> told);

    /// At the output once a second, at the rest every 10 s.
    void look(const Ranks& ranks, Moment now);
    std::optional<StepWatch::Overdue> overdue(Moment now) const;
    void forgive(StepWatch::Time time) { pace_.forgive(time); }
    const StepWatch& pace() const { return pace_; }

private:
    std::uint64_t printed_bytes(const Ranks& ranks) const;

    std::filesystem::path run_dir_;
    int generation_ = 0;
    StepWatch pace_;
    int first_rank_ = 0;
    Moment output_at_{}, bytes_at_{};
    std::uint64_t printed_ = 0, moved_ = 0, sent_ = 0;
};

/// Bytes that came and went over all links of this network namespace, by the text of
/// /proc/net/dev. Pure.
std::uint64_t network_bytes(const std::string& table);

}  // namespace autolaunch::launcher
