#pragma once
// The bytes of a flight recorder's memory: docs/flight-recorder.md. The library writes them, the
// launcher reads them.
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace autolaunch::flight {

static_assert(std::endian::native == std::endian::little, "the recorder's memory is little-endian");

/// All of the memory is 64-bit words, each read and written as a whole.
using Word = std::uint64_t;

inline constexpr Word kMagic = 0x5448'4749'4c46'4c41;  // "ALFLIGHT"
inline constexpr std::uint32_t kLayoutVersion = 1;

inline constexpr std::size_t kHeaderBytes = 4096;
inline constexpr std::size_t kRings = 32;        ///< groups that are recorded at a time
inline constexpr std::size_t kEntries = 255;     ///< calls that are kept of each
inline constexpr std::size_t kBlockBytes = 128;  ///< of a ring's head, and of an entry
inline constexpr std::size_t kRingBytes = kBlockBytes * (1 + kEntries);
inline constexpr std::size_t kMemoryBytes = kHeaderBytes + kRings * kRingBytes;
inline constexpr std::size_t kBlockWords = kBlockBytes / sizeof(Word);
inline constexpr std::size_t kTextBytes = 64;  ///< of a label and of a group's name, at most
inline constexpr std::size_t kTextWords = kTextBytes / sizeof(Word);

/// Words of the header.
enum HeaderWord : std::size_t {
    kHeaderMagic,
    kHeaderSizes,  ///< layout version, rings, entries, bytes of a block: 16 bits each, from the
                   ///< lowest
    kHeaderClock,  ///< a Clock
    kHeaderAnchorTicks,  ///< the clock, and …
    kHeaderAnchorNs,     ///< … CLOCK_MONOTONIC at the same moment
    kHeaderRank,         ///< rank, and generation in the upper half
    kHeaderLostGroups,   ///< for which no ring was left
};
inline constexpr Word kSizes =
    Word{kLayoutVersion} | Word{kRings} << 16 | Word{kEntries} << 32 | Word{kBlockBytes} << 48;

/// Words of a ring's head.
enum RingWord : std::size_t {
    kRingGroup,        ///< a number that all ranks of the group have for it; 0: never used
    kRingPlace,        ///< size of the group, and this rank's place in it in the upper half
    kRingUse,          ///< odd while a group is using it; grows by one with each begin and end
    kRingCollectives,  ///< sequence of the newest collective
    kRingMessages,     ///< the same of sends and receives
    kRingLost,         ///< calls that found no place
    kRingBackend,      ///< name, 16 bytes
    kRingName = 8,     ///< kTextBytes
};

/// Words of an entry.
enum EntryWord : std::size_t {
    kEntryVersion,   ///< number of the call in its ring, from 1, times 8, and its Step
    kEntrySequence,  ///< in its group, from 1: of collectives, or of sends and receives
    kEntryBytes,     ///< of the call's buffers
    kEntryEnqueued,  ///< ticks of the clock; 0: not yet
    kEntryStarted,
    kEntryFinished,
    kEntryWhat,   ///< bytes from the lowest: kind, operation, type, state, flags, length of the
                  ///< label
    kEntryRoot,   ///< root or peer, -1 for none
    kEntryLabel,  ///< kTextBytes
};

/// How far an entry is, in its version. Odd: it is being written.
enum Step : Word { kEmpty = 0, kEnqueued = 2, kStarted = 4, kOver = 6, kStepMask = 7 };

enum class State : std::uint8_t { none, enqueued, started, finished, failed };
inline constexpr std::uint8_t kOnDevice =
    1;  ///< flag: its end is known only if the trainer has asked for it

enum class Kind : std::uint8_t {
    all_reduce,
    reduce,
    broadcast,
    all_gather,
    reduce_scatter,
    all_to_all,
    gather,
    scatter,
    send,
    recv,
    barrier,
    split,
    allocate,
    shrink,
};
inline constexpr std::array<std::string_view, 14> kKindNames = {
    "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "gather",
    "scatter",    "send",   "recv",      "barrier",    "split",          "allocate",   "shrink"};
inline constexpr std::array<std::string_view, 6> kOpNames = {"sum", "avg",  "min",
                                                             "max", "prod", "pre_multiplied_sum"};
inline constexpr std::array<std::string_view, 10> kTypeNames = {"f32", "f64", "bf16", "i32", "i64",
                                                                "u8",  "f16", "i8",   "u32", "u64"};

constexpr bool reduces(Kind kind) {
    return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}
constexpr bool has_root(Kind kind) {
    return kind == Kind::reduce || kind == Kind::broadcast || kind == Kind::gather ||
           kind == Kind::scatter;
}
constexpr bool is_message(Kind kind) { return kind == Kind::send || kind == Kind::recv; }

inline Word read_word(const Word& word, std::memory_order order = std::memory_order_relaxed) {
    return std::atomic_ref<Word>(const_cast<Word&>(word)).load(order);
}
/// After all that was written before it: so an odd version is there before what it announces, and
/// an even one after it.
inline void write_word(Word& word, Word value) {
    std::atomic_ref<Word>(word).store(value, std::memory_order_release);
}

}  // namespace autolaunch::flight
