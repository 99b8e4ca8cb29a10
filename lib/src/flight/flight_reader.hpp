#pragma once
#include "flight/flight_clock.hpp"
#include "flight/flight_ring.hpp"

#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// What a recorder's memory says, read while the rank writes on, or after it was killed in the
/// middle of a write, or although it is out of its mind: what contradicts itself is counted and
/// left out.
namespace autolaunch::flight {

/// Moments are how long before the reading they were, in nanoseconds; -1 is not yet, or not known.
struct ReadCall {
    std::uint64_t number = 0;  ///< in its ring, from 1
    std::uint64_t sequence = 0, bytes = 0;
    std::int64_t enqueued_ago = -1, started_ago = -1, finished_ago = -1;
    Kind kind = Kind::barrier;
    std::uint8_t op = 0, type = 0;
    State state = State::none;
    bool on_device = false;
    std::int32_t root = -1;
    std::string label;
};
struct ReadGroup {
    std::uint64_t id = 0;
    std::string name, backend;
    int size = 0, rank = 0;
    bool in_use = false;
    std::uint64_t collectives = 0, messages = 0;  ///< sequences of the newest
    std::uint64_t lost = 0, torn = 0;
    std::vector<ReadCall> calls;  ///< oldest first
};
struct Contents {
    int rank = 0, generation = 0;
    std::uint64_t lost_groups = 0;
    int bad_groups = 0;
    std::vector<ReadGroup> groups;
};

/// Fills the words from the memory's `offset` (bytes) on; false when it can't.
using Source = std::function<bool(std::size_t offset, std::span<Word> words)>;
AUTOLAUNCH_API Source memory_source(const Word* memory);
/// Reads by pread(2), so that a rank can do nothing to the reader's own memory. Does not own the
/// descriptor.
AUTOLAUNCH_API Source file_source(int fd);

/// The descriptor is a memory file of the right size that nobody can shrink. Pure but for two
/// system calls.
AUTOLAUNCH_API bool is_recorder(int fd);
/// Nothing when it is no recorder's memory, or another version's. Pure but for the source.
AUTOLAUNCH_API std::optional<Contents> read_contents(const Source& source,
                                                     Anchor (*now)(Clock) = anchor);

/// "all_reduce #412 (4 MiB, h.0 gradients)".
AUTOLAUNCH_API std::string name_call(Kind kind, std::uint64_t sequence, std::uint64_t bytes,
                                     const std::string& label);
/// "8 B", "1.5 KiB", "4 MiB".
AUTOLAUNCH_API std::string name_bytes(std::uint64_t bytes);
/// "80 us", "12 ms", "31 s", "12 min".
AUTOLAUNCH_API std::string name_time(std::int64_t ns);

/// The newest calls of one ring of the memory in a sentence.
AUTOLAUNCH_API std::string describe_last_calls(const Word* memory, const Word* ring);

}  // namespace autolaunch::flight
