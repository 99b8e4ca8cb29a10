#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// What an agent tells the head of its ranks' flight recorders (docs/flight-recorder.md): a bounded
/// part of each. Plain data. Times are how long before the reading something was, in microseconds;
/// -1 is not yet, or not known.
namespace autolaunch::flight {

struct RecordedCall {
    std::uint64_t sequence = 0;
    std::uint8_t kind = 0, op = 0, type = 0, state = 0;  ///< as the recorder numbers them
    bool on_device = false;
    int root = -1;
    std::uint64_t bytes = 0;
    std::int64_t enqueued_us = -1, started_us = -1, finished_us = -1;
    std::string label;
    bool operator==(const RecordedCall&) const = default;
};
struct RecordedGroup {
    std::uint64_t id = 0;  ///< the same on all its ranks
    std::string name, backend;
    int size = 0, place = 0;  ///< ranks of the group, and this rank's place among them
    bool in_use = false;
    std::uint64_t collectives = 0;  ///< sequence of the newest
    std::uint64_t lost = 0, torn = 0;
    std::vector<RecordedCall> calls;  ///< oldest first: the newest, and those that are not over
    bool operator==(const RecordedGroup&) const = default;
};
struct RecordedRank {
    int rank = 0;
    bool ended = false;     ///< its process has
    std::string no_groups;  ///< why there are none; empty where there are
    std::vector<RecordedGroup> groups;
    bool operator==(const RecordedRank&) const = default;
};

}  // namespace autolaunch::flight
