#pragma once
#include "top/top_rows.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace autolaunch::launcher {

enum class TopKey {
    none,
    quit,
    up,
    down,
    page_up,
    page_down,
    first,
    last,
    left,
    right,
    home,
    end,
    space,
    order,
    by_node,
    stream,
    log,
    help,
    faster,
    slower,
    other  ///< that means nothing, but leaves the help
};

/// Of a run that is over: which moment is shown, and whether time goes on.
struct ReplayState {
    ViewTime first = {}, last = {}, at = {};
    bool plays = false;
    int speed = 1;  ///< seconds of the run in one
};
inline constexpr int kMostReplaySpeed = 4096;

/// What whoever watches has chosen.
struct TopState {
    int rank = 0;       ///< that is selected; with `by_node` the lowest of the node
    int first_row = 0;  ///< the first line of the table that is seen
    TopOrder order = TopOrder::rank;
    bool by_node = false;
    std::string stream = "stderr";
    bool log = true, help = false, paused = false, quits = false;
    std::optional<ReplayState> replay = {};  ///< nothing: the job as it is now
};

/// What a key changes. `rows` are those of the table and `seen` how many of them fit. Pure.
TopState on_key(TopState state, TopKey key, const std::vector<TopRow>& rows, int seen);

/// The selected rank is one that there is, and its line is seen. Pure.
TopState settled(TopState state, const std::vector<TopRow>& rows, int seen);

/// Time goes on by `passed` where it plays, and stops at the end. Pure.
ReplayState played(ReplayState replay, std::chrono::milliseconds passed);

}  // namespace autolaunch::launcher
