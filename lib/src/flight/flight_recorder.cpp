#include "flight/flight_recorder.hpp"

#include "base/hash.hpp"
#include "base/memory_file.hpp"
#include "flight/flight_reader.hpp"

#include <autolaunch/error.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace autolaunch {

using namespace flight;

namespace {

void put_text(Word* words, std::size_t count, std::string_view text) {
    Word copy[kTextWords] = {};
    std::memcpy(copy, text.data(), std::min(text.size(), count * sizeof(Word)));
    for (std::size_t i = 0; i < count; ++i)
        write_word(words[i], copy[i]);
}

constexpr Word halves(std::int32_t low, std::int32_t high) {
    return Word{static_cast<std::uint32_t>(low)} | Word{static_cast<std::uint32_t>(high)} << 32;
}

}  // namespace

std::shared_ptr<FlightRecorder> FlightRecorder::create(int rank, int generation) {
    UniqueFd file = create_memory_file("autolaunch-flight", kMemoryBytes);
    const int flags = file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void* const memory =
        ::mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, flags, file.get(), 0);
    if (memory == MAP_FAILED)
        throw SystemError(errno, "map the flight recorder's memory");
    return std::shared_ptr<FlightRecorder>(
        new FlightRecorder(std::move(file), memory, rank, generation));
}

FlightRecorder::FlightRecorder(UniqueFd file, void* memory, int rank, int generation)
    : file_(std::move(file)), memory_(static_cast<Word*>(memory)), clock_(best_clock()) {
    const Anchor now = anchor(clock_);
    write_word(memory_[kHeaderSizes], kSizes);
    write_word(memory_[kHeaderClock], static_cast<Word>(clock_));
    write_word(memory_[kHeaderAnchorTicks], now.ticks);
    write_word(memory_[kHeaderAnchorNs], now.ns);
    write_word(memory_[kHeaderRank], halves(rank, generation));
    write_word(memory_[kHeaderMagic], kMagic);
}

FlightRecorder::~FlightRecorder() { ::munmap(memory_, kMemoryBytes); }

std::string FlightRecorder::name_world() {
    const std::scoped_lock lock(mutex_);
    return ++worlds_ == 1 ? "world" : "world#" + std::to_string(worlds_);
}

// Rather one that no group has had yet: what a group did before it ended stays readable.
Word* FlightRecorder::take_ring() {
    const std::scoped_lock lock(mutex_);
    Word* oldest = nullptr;
    for (std::size_t i = 0; i < kRings; ++i) {
        Word* const ring = memory_ + (kHeaderBytes + i * kRingBytes) / sizeof(Word);
        const Word use = read_word(ring[kRingUse]);
        if (use % 2 == 0 && (oldest == nullptr || use < read_word(oldest[kRingUse])))
            oldest = ring;
    }
    if (oldest == nullptr) {
        write_word(memory_[kHeaderLostGroups], read_word(memory_[kHeaderLostGroups]) + 1);
        return nullptr;
    }
    const Word use = read_word(oldest[kRingUse]);
    write_word(oldest[kRingGroup], 0);
    for (std::size_t i = 0; use > 0 && i < kRingBytes / sizeof(Word); ++i)
        write_word(oldest[i], 0);
    write_word(oldest[kRingUse], use + 1);
    // Its pages at once, where the system can: else every 32nd of the group's first calls takes a
    // page fault.
    constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, of Linux 5.14
    static_cast<void>(::madvise(oldest, kRingBytes, kPopulateWrite));
    return oldest;
}

void FlightRecorder::give_back(Word* ring) {
    const std::scoped_lock lock(mutex_);
    write_word(ring[kRingUse], read_word(ring[kRingUse]) + 1);
}

FlightRing::FlightRing(std::shared_ptr<FlightRecorder> recorder, std::string_view name, int rank,
                       int size, std::string_view backend)
    : recorder_(std::move(recorder)), name_(name) {
    if (!recorder_)
        return;
    clock_ = recorder_->clock();
    ring_ = recorder_->take_ring();
    if (ring_ == nullptr)
        return;
    write_word(ring_[kRingPlace], halves(size, rank));
    put_text(ring_ + kRingBackend, 2, backend);
    put_text(ring_ + kRingName, kTextWords, name_);
    write_word(ring_[kRingGroup], hash64(name_.data(), name_.size()) | 1U);
}

FlightRing::FlightRing(FlightRing&& other) noexcept { *this = std::move(other); }

FlightRing& FlightRing::operator=(FlightRing&& other) noexcept {
    std::swap(recorder_, other.recorder_);
    std::swap(name_, other.name_);
    std::swap(ring_, other.ring_);
    std::swap(clock_, other.clock_);
    std::swap(next_, other.next_);
    std::swap(collectives_, other.collectives_);
    std::swap(messages_, other.messages_);
    std::swap(lost_, other.lost_);
    std::swap(slot_, other.slot_);
    std::swap(label_, other.label_);
    std::swap(label_bytes_, other.label_bytes_);
    return *this;
}

FlightRing::~FlightRing() {
    if (ring_ != nullptr)
        recorder_->give_back(ring_);
}

void FlightRing::set_label(std::string_view label) noexcept {
    label_bytes_ = std::min(label.size(), kTextBytes);
    std::memset(label_, 0, sizeof label_);
    std::memcpy(label_, label.data(), label_bytes_);
}

// An entry that is over is ours to write. One that a device has not finished may be finished by
// another thread now.
bool FlightRing::claim(Word* entry, Word writing) noexcept {
    Word version = read_word(entry[kEntryVersion], std::memory_order_acquire);
    const Word step = version & kStepMask;
    if (step == kEmpty || step == kOver) {
        write_word(entry[kEntryVersion], writing);
    } else {
        const bool on_device = (read_word(entry[kEntryWhat]) >> 32 & kOnDevice) != 0;
        if (!on_device || step % 2 != 0)
            return false;
        if (!std::atomic_ref<Word>(entry[kEntryVersion]).compare_exchange_strong(version, writing))
            return false;
    }
    return true;
}

FlightRing::Entry FlightRing::enqueue(const FlightCall& call, bool started) noexcept {
    if (ring_ == nullptr)
        return {};
    const bool message = is_message(call.kind);
    const Word sequence = message ? ++messages_ : ++collectives_;
    write_word(ring_[message ? kRingMessages : kRingCollectives], sequence);
    Word* const entry = ring_ + kBlockWords * (1 + slot_);
    const Word version = next_ * 8;
    if (!claim(entry, version + 1)) {
        write_word(ring_[kRingLost], ++lost_);
        return {};
    }
    ++next_;
    if (++slot_ == kEntries)
        slot_ = 0;
    const Word now = ticks(clock_);
    write_word(entry[kEntrySequence], sequence);
    write_word(entry[kEntryBytes], call.bytes);
    write_word(entry[kEntryEnqueued], now);
    write_word(entry[kEntryStarted], started ? now : 0);
    write_word(entry[kEntryFinished], 0);
    const State state = started ? State::started : State::enqueued;
    write_word(entry[kEntryWhat], static_cast<Word>(call.kind) | Word{call.op} << 8 |
                                      Word{call.type} << 16 | static_cast<Word>(state) << 24 |
                                      Word{call.flags} << 32 | Word{label_bytes_} << 40);
    write_word(entry[kEntryRoot], static_cast<std::uint32_t>(call.root));
    for (std::size_t i = 0; i * sizeof(Word) < label_bytes_; ++i)
        write_word(entry[kEntryLabel + i], label_[i]);
    const Word stable = version + (started ? kStarted : kEnqueued);
    write_word(entry[kEntryVersion], stable);
    return {entry, stable, (call.flags & kOnDevice) != 0};
}

namespace {

// False when a later call has taken a device's entry.
bool begin_update(const FlightRing::Entry& entry) {
    Word expected = entry.version;
    if (!entry.on_device) {
        write_word(entry.words[kEntryVersion], entry.version + 1);
    } else if (!std::atomic_ref<Word>(entry.words[kEntryVersion])
                    .compare_exchange_strong(expected, entry.version + 1)) {
        return false;
    }
    return true;
}

void set_state(Word* words, State state) {
    const Word what = read_word(words[kEntryWhat]) & ~(Word{0xff} << 24);
    write_word(words[kEntryWhat], what | static_cast<Word>(state) << 24);
}

}  // namespace

void FlightRing::start(Entry& entry) noexcept {
    if (entry.words == nullptr || !begin_update(entry))
        return;
    write_word(entry.words[kEntryStarted], ticks(clock_));
    set_state(entry.words, State::started);
    entry.version += 2;
    write_word(entry.words[kEntryVersion], entry.version);
}

void FlightRing::end(Entry& entry, bool failed) noexcept {
    if (entry.words == nullptr || !begin_update(entry))
        return;
    Word* const words = std::exchange(entry.words, nullptr);
    write_word(words[kEntryFinished], ticks(clock_));
    set_state(words, failed ? State::failed : State::finished);
    write_word(words[kEntryVersion], (entry.version & ~Word{kStepMask}) + kOver);
}

std::string FlightRing::describe_last() const {
    return ring_ == nullptr ? std::string() : describe_last_calls(recorder_->memory(), ring_);
}

}  // namespace autolaunch
