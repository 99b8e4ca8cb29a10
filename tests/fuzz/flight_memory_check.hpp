#pragma once
#include "flight/flight_reader.hpp"
#include "flight_view/flight_json.hpp"
#include "flight_view/flight_lines.hpp"
#include "flight_view/flight_picture.hpp"
#include "flight_view/rank_recorders.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

/// A rank's recorder with these bytes in it, beside an honest one: whatever they are, there is a
/// picture, in few lines. The bytes are the header's seven words, then rings. Aborts where that is
/// not so. True: it was a recorder's memory.
namespace autolaunch::launcher {

inline bool check_flight_bytes(std::string_view bytes) {
    const auto require = [](bool holds) {
        if (!holds)
            std::abort();
    };
    constexpr std::size_t kHeader = 7 * sizeof(flight::Word);
    static std::vector<flight::Word> memory(flight::kMemoryBytes / sizeof(flight::Word));
    const std::size_t rings = bytes.size() - std::min(bytes.size(), kHeader);
    const std::size_t used = std::min(rings, flight::kMemoryBytes - flight::kHeaderBytes);
    auto* const target = reinterpret_cast<char*>(memory.data());
    std::memcpy(target, bytes.data(), std::min(bytes.size(), kHeader));
    std::memcpy(target + flight::kHeaderBytes, bytes.data() + bytes.size() - rings, used);
    const auto now = [](flight::Clock) { return flight::Anchor{3'000'000'000, 2'000'000'000}; };
    const auto contents = flight::read_contents(flight::memory_source(memory.data()), now);
    std::fill_n(memory.begin(), 7, flight::Word{0});
    std::memset(target + flight::kHeaderBytes, 0, used);
    if (!contents)
        return false;
    for (const auto& group : contents->groups)
        require(group.calls.size() + group.torn <= flight::kEntries);
    std::vector<flight::RecordedRank> ranks = {summarize(0, true, *contents),
                                               summarize(1, false, *contents)};
    for (auto& group : ranks[1].groups)
        group.calls.resize(group.calls.size() / 2);
    drop_impossible_calls(ranks);
    const FlightPicture picture = draw_flight_picture(ranks);
    const auto lines = flight_lines(picture, 6);
    require(lines.size() <= 6);
    for (const auto& line : lines)
        require(!line.empty() && line.size() < 1000);
    require(flight_json(picture, lines, 0, "", {}).back() == '\n');
    return true;
}

}  // namespace autolaunch::launcher
