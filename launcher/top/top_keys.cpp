#include "top/top_keys.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr int kScrubSteps = 100;  // from one end of a run to the other

int place_of(const TopState& state, const std::vector<TopRow>& rows) {
    const auto found = std::find_if(rows.begin(), rows.end(),
                                    [&](const TopRow& row) { return row.rank == state.rank; });
    return found == rows.end() ? -1 : static_cast<int>(found - rows.begin());
}

void select(TopState& state, const std::vector<TopRow>& rows, int place) {
    if (rows.empty())
        return;
    const int last = static_cast<int>(rows.size()) - 1;
    state.rank = rows[static_cast<std::size_t>(std::clamp(place, 0, last))].rank;
}

void scrub(ReplayState& replay, int steps) {
    const auto by =
        std::max((replay.last - replay.first) / kScrubSteps, std::chrono::milliseconds(1));
    replay.at = std::clamp(replay.at + steps * by, replay.first, replay.last);
}

/// False: it is none of a replay's.
bool take_replay_key(ReplayState& replay, TopKey key) {
    switch (key) {
        case TopKey::left:
            scrub(replay, -1);
            return true;
        case TopKey::right:
            scrub(replay, 1);
            return true;
        case TopKey::home:
            replay.at = replay.first;
            return true;
        case TopKey::end:
            replay.at = replay.last;
            return true;
        case TopKey::space:
            if (!replay.plays && replay.at >= replay.last)
                replay.at = replay.first;
            replay.plays = !replay.plays;
            return true;
        case TopKey::faster:
            replay.speed = std::min(replay.speed * 2, kMostReplaySpeed);
            return true;
        case TopKey::slower:
            replay.speed = std::max(replay.speed / 2, 1);
            return true;
        default:
            return false;
    }
}

TopOrder next(TopOrder order) {
    return static_cast<TopOrder>((static_cast<int>(order) + 1) % kTopOrders);
}

}  // namespace

TopState on_key(TopState state, TopKey key, const std::vector<TopRow>& rows, int seen) {
    if (std::exchange(state.help, false) && key != TopKey::quit)
        return state;  // any key leaves it
    if (state.replay && take_replay_key(*state.replay, key))
        return state;
    const int place = place_of(state, rows);
    const int page = std::max(1, seen - 1);
    switch (key) {
        case TopKey::quit:
            state.quits = true;
            break;
        case TopKey::up:
            select(state, rows, place - 1);
            break;
        case TopKey::down:
            select(state, rows, place + 1);
            break;
        case TopKey::page_up:
            select(state, rows, place - page);
            break;
        case TopKey::page_down:
            select(state, rows, place + page);
            break;
        case TopKey::first:
        case TopKey::home:
            select(state, rows, 0);
            break;
        case TopKey::last:
        case TopKey::end:
            select(state, rows, static_cast<int>(rows.size()) - 1);
            break;
        case TopKey::space:
            state.paused = !state.paused;
            break;
        case TopKey::order:
            state.order = next(state.order);
            state.first_row = 0;
            break;
        case TopKey::by_node:
            state.by_node = !state.by_node;
            state.first_row = 0;
            break;
        case TopKey::stream:
            state.stream = state.stream == "stderr" ? "stdout" : "stderr";
            break;
        case TopKey::log:
            state.log = !state.log;
            break;
        case TopKey::help:
            state.help = true;
            break;
        default:
            break;
    }
    return state;
}

TopState settled(TopState state, const std::vector<TopRow>& rows, int seen) {
    const int count = static_cast<int>(rows.size());
    int place = place_of(state, rows);
    if (place < 0) {  // the last one that begins at it or before: its node's line, by node
        for (int at = 0; at < count; ++at)
            if (rows[static_cast<std::size_t>(at)].rank <= state.rank)
                place = place < 0 || rows[static_cast<std::size_t>(at)].rank >
                                         rows[static_cast<std::size_t>(place)].rank
                            ? at
                            : place;
        place = std::max(place, 0);
        select(state, rows, place);
    }
    seen = std::max(seen, 1);
    state.first_row = std::clamp(state.first_row, std::max(0, place - seen + 1), place);
    state.first_row = std::clamp(state.first_row, 0, std::max(0, count - seen));
    return state;
}

ReplayState played(ReplayState replay, std::chrono::milliseconds passed) {
    if (!replay.plays)
        return replay;
    replay.at = std::min(replay.at + passed * replay.speed, replay.last);
    replay.plays = replay.at < replay.last;
    return replay;
}

}  // namespace autolaunch::launcher
