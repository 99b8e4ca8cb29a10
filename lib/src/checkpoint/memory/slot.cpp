#include "checkpoint/memory/slot.hpp"

#include "base/hash.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace autolaunch::memory {

namespace {

// Copied and digested while it is in the nearest caches.
constexpr std::uint64_t kPartBytes = 128 << 10;

// Never 0, which says that there is no copy.
std::uint64_t header_digest(const Header& header) {
    const std::uint64_t digest = hash64(&header, sizeof header);
    return digest == 0 ? 1 : digest;
}

std::uint64_t table_bytes(const Header& header) {
    return block_count(header.data_bytes) * sizeof(Digest128) + header.text_bytes;
}

// work(index of each block of so many bytes), by so many threads, this one included. `work` must
// not throw.
void for_each_block(std::uint64_t bytes, int threads,
                    const std::function<void(std::uint64_t)>& work) {
    const std::uint64_t blocks = block_count(bytes);
    std::atomic<std::uint64_t> next = 0;
    const auto take = [&] {
        for (std::uint64_t index = next++; index < blocks; index = next++)
            work(index);
    };
    std::vector<std::jthread> helpers;
    const auto useful = std::min<std::uint64_t>(static_cast<std::uint64_t>(threads), blocks);
    for (std::uint64_t i = 1; i < useful; ++i)
        helpers.emplace_back(take);
    take();
}

}  // namespace

std::uint64_t Slot::commit_word() const {
    auto* const word = reinterpret_cast<std::uint64_t*>(memory_.data() + kCommitOffset);
    return std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire);
}

// Before anything else is stored: an exchange also acquires, which keeps what follows behind it. (A
// fence would do the same, but ThreadSanitizer knows none.)
void Slot::uncommit() {
    auto* const word = reinterpret_cast<std::uint64_t*>(memory_.data() + kCommitOffset);
    std::atomic_ref<std::uint64_t>(*word).exchange(0, std::memory_order_seq_cst);
}

void Slot::commit() {
    Header header;
    std::memcpy(&header, memory_.data() + kHeaderOffset, sizeof header);
    auto* const word = reinterpret_cast<std::uint64_t*>(memory_.data() + kCommitOffset);
    std::atomic_ref<std::uint64_t>(*word).store(header_digest(header), std::memory_order_release);
}

// One whose sizes can be true in a file of this size, and whose table is whole. Sizes are bounded
// one by one before they are added.
std::optional<Header> Slot::plausible_header() const {
    if (bytes() < kTableOffset)
        return std::nullopt;
    Header header;
    std::memcpy(&header, memory_.data() + kHeaderOffset, sizeof header);
    if (header.magic != kMagic || header.layout_version != kLayoutVersion)
        return std::nullopt;
    if (header.data_bytes > bytes() || header.text_bytes > bytes())
        return std::nullopt;
    if (header.data_offset != data_offset_for(header.data_bytes, header.text_bytes))
        return std::nullopt;
    if (header.used_bytes != header.data_offset + header.data_bytes || header.used_bytes > bytes())
        return std::nullopt;
    const auto table = hash128(memory_.data() + kTableOffset, table_bytes(header));
    return table == header.table_digest ? std::optional(header) : std::nullopt;
}

std::optional<Header> Slot::header() const {
    if (bytes() < kTableOffset || commit_word() == 0)
        return std::nullopt;
    const auto header = plausible_header();
    return header && commit_word() == header_digest(*header) ? header : std::nullopt;
}

std::span<const std::byte> Slot::data(const Header& header) const {
    return {memory_.data() + header.data_offset, static_cast<std::size_t>(header.data_bytes)};
}

std::string_view Slot::text(const Header& header) const {
    const std::uint64_t at = kTableOffset + block_count(header.data_bytes) * sizeof(Digest128);
    return {reinterpret_cast<const char*>(memory_.data()) + at,
            static_cast<std::size_t>(header.text_bytes)};
}

bool Slot::verify_data(const Header& header, int threads) const {
    const auto all = data(header);
    std::atomic<bool> good = true;
    for_each_block(all.size(), threads, [&](std::uint64_t index) {
        const auto block = all.subspan(index * kBlockBytes,
                                       std::min(kBlockBytes, all.size() - index * kBlockBytes));
        const auto digest = hash128(block.data(), block.size());
        if (std::memcmp(memory_.data() + kTableOffset + index * sizeof digest, &digest,
                        sizeof digest) != 0)
            good = false;
    });
    return good;
}

void Slot::begin(const CopyPlan& plan) {
    if (plan.used_bytes() > bytes())
        throw Error(ErrorCode::invalid_argument, "a slot of memory is too small for its copy");
    uncommit();
    writing_ = {};
    writing_.generation = plan.name.generation;
    writing_.step = plan.name.step;
    writing_.sequence = plan.name.sequence;
    writing_.shard = plan.shard;
    writing_.world_size = plan.world_size;
    writing_.used_bytes = plan.used_bytes();
    writing_.data_offset = data_offset_for(plan.data_bytes, plan.text.size());
    writing_.data_bytes = plan.data_bytes;
    writing_.text_bytes = plan.text.size();
    text_ = plan.text;
    copied_ = false;
}

void Slot::copy(std::span<const Run> runs, int threads) {
    std::vector<std::uint64_t> ends;  // of each run, in the copy
    for (const Run& run : runs)
        ends.push_back((ends.empty() ? 0 : ends.back()) + run.bytes);
    if ((ends.empty() ? 0 : ends.back()) != writing_.data_bytes)
        throw Error(ErrorCode::invalid_argument,
                    "a copy in memory has not the bytes that were announced");
    for_each_block(writing_.data_bytes, threads, [&](std::uint64_t index) {
        std::uint64_t at = index * kBlockBytes;
        const std::uint64_t end = std::min(at + kBlockBytes, writing_.data_bytes);
        auto run =
            static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), at) - ends.begin());
        RunningHash hash;
        while (at < end) {
            const std::uint64_t left = ends[run] - at;
            const auto part = static_cast<std::size_t>(std::min({left, kPartBytes, end - at}));
            std::byte* const to = memory_.data() + writing_.data_offset + at;
            std::memcpy(to, runs[run].data + (runs[run].bytes - left), part);
            hash.update(to, part);
            at += part;
            if (part == left)
                ++run;
        }
        const Digest128 digest = hash.take();
        std::memcpy(memory_.data() + kTableOffset + index * sizeof digest, &digest, sizeof digest);
    });
    copied_ = true;
}

void Slot::finish() {
    if (!copied_)
        throw Error(ErrorCode::invalid_argument,
                    "a copy in memory is to be finished that was not made");
    std::byte* const to = memory_.data() + kTableOffset + table_bytes(writing_) - text_.size();
    std::memcpy(to, text_.data(), text_.size());
    writing_.table_digest = hash128(memory_.data() + kTableOffset, table_bytes(writing_));
    std::memcpy(memory_.data() + kHeaderOffset, &writing_, sizeof writing_);
}

void Slot::begin_receiving() { uncommit(); }

std::span<std::byte> Slot::receivable(std::uint64_t used_bytes) {
    return {memory_.data() + kHeaderOffset, static_cast<std::size_t>(used_bytes - kHeaderOffset)};
}

std::span<const std::byte> Slot::sendable(std::uint64_t used_bytes) const {
    return {memory_.data() + kHeaderOffset, static_cast<std::size_t>(used_bytes - kHeaderOffset)};
}

bool Slot::check_received(const SaveName& name, int shard, std::uint64_t used_bytes) const {
    const auto header = plausible_header();
    return header && header->name() == name && header->shard == shard &&
           header->used_bytes == used_bytes;
}

}  // namespace autolaunch::memory
