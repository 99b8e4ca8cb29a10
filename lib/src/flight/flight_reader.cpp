#include "flight/flight_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

namespace autolaunch::flight {
namespace {

constexpr std::size_t kRingWords = kRingBytes / sizeof(Word);
constexpr int kMostRanks = 1 << 24;
constexpr std::size_t kDescribed = 3;

/// From ticks of the rank's clock to how long ago it was.
class Ages {
public:
    Ages(Clock clock, Anchor begun, Anchor now) : now_(now) {
        if (clock == Clock::monotonic_ns)
            return;
        const auto ticks = static_cast<double>(now.ticks - begun.ticks);
        const auto ns = static_cast<double>(now.ns - begun.ns);
        ns_per_tick_ = now.ticks > begun.ticks && now.ns > begun.ns ? ns / ticks : 0;
        if (!(ns_per_tick_ > 0.05 && ns_per_tick_ < 100))
            ns_per_tick_ = 0;  // no such processor
    }

    std::int64_t ago(Word ticks) const {
        if (ticks == 0 || ns_per_tick_ == 0)
            return -1;
        if (ticks >= now_.ticks)
            return 0;  // within the error of two processors' counters
        const double ns = static_cast<double>(now_.ticks - ticks) * ns_per_tick_;
        return ns < 9e18 ? static_cast<std::int64_t>(ns) : -1;
    }

private:
    Anchor now_;
    double ns_per_tick_ = 1;
};

std::string text_of(const Word* words, std::size_t bytes) {
    const char* const text = reinterpret_cast<const char*>(words);
    return {text, ::strnlen(text, bytes)};
}

std::uint8_t byte_of(Word word, int index) { return static_cast<std::uint8_t>(word >> 8 * index); }

/// False for what the library does not write.
bool read_call(const Word* entry, const Ages& ages, ReadCall& call) {
    const Word what = entry[kEntryWhat];
    const std::size_t label_bytes = byte_of(what, 5);
    call.number = entry[kEntryVersion] / 8;
    call.sequence = entry[kEntrySequence];
    call.bytes = entry[kEntryBytes];
    call.enqueued_ago = ages.ago(entry[kEntryEnqueued]);
    call.started_ago = ages.ago(entry[kEntryStarted]);
    call.finished_ago = ages.ago(entry[kEntryFinished]);
    call.kind = static_cast<Kind>(byte_of(what, 0));
    call.op = byte_of(what, 1);
    call.type = byte_of(what, 2);
    call.state = static_cast<State>(byte_of(what, 3));
    call.on_device = (byte_of(what, 4) & kOnDevice) != 0;
    call.root = static_cast<std::int32_t>(entry[kEntryRoot]);
    if (byte_of(what, 0) >= kKindNames.size() || call.op >= kOpNames.size() ||
        call.type >= kTypeNames.size() ||
        byte_of(what, 3) > static_cast<std::uint8_t>(State::failed) || call.state == State::none ||
        label_bytes > kTextBytes || call.sequence == 0 || call.number == 0)
        return false;
    call.label = text_of(entry + kEntryLabel, label_bytes);
    return true;
}

/// Three readings: an entry counts when it was the same before and after the one that is used.
struct Readings {
    std::array<std::array<Word, kRingWords>, 3> rings;
};

std::optional<ReadGroup> parse_ring(const Readings& readings, const Ages& ages) {
    const auto& [before, ring, after] = readings.rings;
    ReadGroup group;
    group.id = ring[kRingGroup];
    group.size = static_cast<std::int32_t>(ring[kRingPlace]);
    group.rank = static_cast<std::int32_t>(ring[kRingPlace] >> 32);
    const bool same =
        before[kRingGroup] == after[kRingGroup] && before[kRingUse] == after[kRingUse];
    const bool sane =
        group.size > 0 && group.size <= kMostRanks && group.rank >= 0 && group.rank < group.size;
    if (!same || !sane || group.id == 0)
        return std::nullopt;
    group.in_use = ring[kRingUse] % 2 != 0;
    group.name = text_of(ring.data() + kRingName, kTextBytes);
    group.backend = text_of(ring.data() + kRingBackend, 2 * sizeof(Word));
    group.collectives = ring[kRingCollectives];
    group.messages = ring[kRingMessages];
    group.lost = ring[kRingLost];
    for (std::size_t i = 1; i <= kEntries; ++i) {
        const std::size_t at = i * kBlockWords;
        const Word version = before[at + kEntryVersion];
        if (version == 0)
            continue;
        ReadCall call;
        const bool whole = version % 2 == 0 && version == ring[at + kEntryVersion] &&
                           version == after[at + kEntryVersion];
        if (whole && read_call(ring.data() + at, ages, call)) {
            group.calls.push_back(std::move(call));
        } else {
            ++group.torn;
        }
    }
    std::sort(group.calls.begin(), group.calls.end(),
              [](const ReadCall& a, const ReadCall& b) { return a.number < b.number; });
    return group;
}

std::optional<ReadGroup> read_ring(const Source& source, std::size_t offset, const Ages& ages,
                                   Readings& readings) {
    for (auto& ring : readings.rings)
        if (!source(offset, ring))
            return std::nullopt;
    return parse_ring(readings, ages);
}

std::string describe(const ReadCall& call) {
    std::string text = name_call(call.kind, call.sequence, call.bytes, call.label);
    const std::int64_t begun = call.started_ago >= 0 ? call.started_ago : call.enqueued_ago;
    if (call.state == State::finished)
        return text + " finished " + name_time(call.finished_ago) + " ago";
    if (call.state == State::failed)
        return text + " failed after " + name_time(begun - call.finished_ago);
    return text + (call.state == State::started ? " began " : " waits for its turn since ") +
           name_time(begun) + (call.state == State::started ? " ago" : "");
}

}  // namespace

Source memory_source(const Word* memory) {
    return [memory](std::size_t offset, std::span<Word> words) {
        for (std::size_t i = 0; i < words.size(); ++i)
            words[i] = read_word(memory[offset / sizeof(Word) + i], std::memory_order_acquire);
        return true;
    };
}

Source file_source(int fd) {
    return [fd](std::size_t offset, std::span<Word> words) {
        const ssize_t count =
            ::pread(fd, words.data(), words.size_bytes(), static_cast<off_t>(offset));
        return count == static_cast<ssize_t>(words.size_bytes());
    };
}

bool is_recorder(int fd) {
    struct stat found {};
    const int seals = ::fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && ::fstat(fd, &found) == 0 &&
           found.st_size == static_cast<off_t>(kMemoryBytes);
}

std::optional<Contents> read_contents(const Source& source, Anchor (*now)(Clock)) {
    std::array<Word, kHeaderLostGroups + 1> header{};
    if (!source(0, header) || header[kHeaderMagic] != kMagic || header[kHeaderSizes] != kSizes)
        return std::nullopt;
    if (header[kHeaderClock] > static_cast<Word>(Clock::time_stamp_counter))
        return std::nullopt;
    const auto clock = static_cast<Clock>(header[kHeaderClock]);
    const Ages ages(clock, {header[kHeaderAnchorTicks], header[kHeaderAnchorNs]}, now(clock));
    Contents contents;
    contents.rank = static_cast<std::int32_t>(header[kHeaderRank]);
    contents.generation = static_cast<std::int32_t>(header[kHeaderRank] >> 32);
    contents.lost_groups = header[kHeaderLostGroups];
    const auto readings = std::make_unique<Readings>();
    for (std::size_t i = 0; i < kRings; ++i) {
        const std::size_t offset = kHeaderBytes + i * kRingBytes;
        Word id = 0;
        if (!source(offset, {&id, 1}) || id == 0)
            continue;
        if (auto group = read_ring(source, offset, ages, *readings)) {
            contents.groups.push_back(std::move(*group));
        } else {
            ++contents.bad_groups;
        }
    }
    return contents;
}

std::string name_bytes(std::uint64_t bytes) {
    constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    auto number = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (number >= 1024 && unit + 1 < kUnits.size()) {
        number /= 1024;
        ++unit;
    }
    std::array<char, 32> text{};
    const bool whole = number >= 100 || number == std::floor(number);
    std::snprintf(text.data(), text.size(), whole ? "%.0f %s" : "%.1f %s", number, kUnits[unit]);
    return text.data();
}

std::string name_time(std::int64_t ns) {
    if (ns < 0)
        return "an unknown time";
    if (ns < 1'000'000)
        return std::to_string(ns / 1000) + " us";
    if (ns < 1'000'000'000)
        return std::to_string(ns / 1'000'000) + " ms";
    const std::int64_t seconds = ns / 1'000'000'000;
    return seconds < 600 ? std::to_string(seconds) + " s" : std::to_string(seconds / 60) + " min";
}

std::string name_call(Kind kind, std::uint64_t sequence, std::uint64_t bytes,
                      const std::string& label) {
    std::string text =
        std::string(kKindNames[static_cast<std::size_t>(kind)]) + " #" + std::to_string(sequence);
    const std::string size = bytes == 0 ? "" : name_bytes(bytes);
    const std::string details = size + (size.empty() || label.empty() ? "" : ", ") + label;
    return details.empty() ? text : text + " (" + details + ")";
}

std::string describe_last_calls(const Word* memory, const Word* ring) {
    const auto clock = static_cast<Clock>(read_word(memory[kHeaderClock]));
    const Ages ages(clock,
                    {read_word(memory[kHeaderAnchorTicks]), read_word(memory[kHeaderAnchorNs])},
                    anchor(clock));
    const auto readings = std::make_unique<Readings>();
    const auto offset = static_cast<std::size_t>(ring - memory) * sizeof(Word);
    const auto group = read_ring(memory_source(memory), offset, ages, *readings);
    std::string text;
    if (!group)
        return text;
    const std::size_t count = std::min(kDescribed, group->calls.size());
    for (std::size_t i = 0; i < count; ++i)
        text += (i == 0 ? "" : ", ") + describe(group->calls[group->calls.size() - 1 - i]);
    return text;
}

}  // namespace autolaunch::flight
