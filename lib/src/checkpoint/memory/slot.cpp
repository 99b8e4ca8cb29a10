#include "checkpoint/memory/slot.hpp"

#include "base/hash.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>

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

}  // namespace

std::uint64_t Slot::commit_word() const {
    auto* const word = reinterpret_cast<std::uint64_t*>(memory_.data() + kCommitOffset);
    return std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire);
}

// Before anything else is stored: the fence keeps what follows behind it.
void Slot::uncommit() {
    auto* const word = reinterpret_cast<std::uint64_t*>(memory_.data() + kCommitOffset);
    std::atomic_ref<std::uint64_t>(*word).store(0, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Slot::commit() {
    Header header;
    std::memcpy(&header, memory_.data() + kHeaderOffset, sizeof header);
    auto* const word = reinterpret_cast<std::uint64_t*>(memory_.data() + kCommitOffset);
    std::atomic_ref<std::uint64_t>(*word).store(header_digest(header), std::memory_order_release);
}

// One whose sizes can be true in a file of this size, and whose table is whole. Sizes are bounded one by one before
// they are added.
std::optional<Header> Slot::plausible_header() const {
    if (bytes() < kTableOffset) return std::nullopt;
    Header header;
    std::memcpy(&header, memory_.data() + kHeaderOffset, sizeof header);
    if (header.magic != kMagic || header.layout_version != kLayoutVersion) return std::nullopt;
    if (header.data_bytes > bytes() || header.text_bytes > bytes()) return std::nullopt;
    if (header.data_offset != data_offset_for(header.data_bytes, header.text_bytes)) return std::nullopt;
    if (header.used_bytes != header.data_offset + header.data_bytes || header.used_bytes > bytes()) return std::nullopt;
    const auto table = hash128(memory_.data() + kTableOffset, table_bytes(header));
    return table == header.table_digest ? std::optional(header) : std::nullopt;
}

std::optional<Header> Slot::header() const {
    if (bytes() < kTableOffset || commit_word() == 0) return std::nullopt;
    const auto header = plausible_header();
    return header && commit_word() == header_digest(*header) ? header : std::nullopt;
}

std::span<const std::byte> Slot::data(const Header& header) const {
    return {memory_.data() + header.data_offset, static_cast<std::size_t>(header.data_bytes)};
}

std::string_view Slot::text(const Header& header) const {
    const std::uint64_t at = kTableOffset + block_count(header.data_bytes) * sizeof(Digest128);
    return {reinterpret_cast<const char*>(memory_.data()) + at, static_cast<std::size_t>(header.text_bytes)};
}

bool Slot::verify_data(const Header& header) const {
    auto left = data(header);
    for (const std::byte* at = memory_.data() + kTableOffset; !left.empty(); at += sizeof(Digest128)) {
        const auto block = left.first(std::min<std::size_t>(left.size(), kBlockBytes));
        const auto digest = hash128(block.data(), block.size());
        if (std::memcmp(at, &digest, sizeof digest) != 0) return false;
        left = left.subspan(block.size());
    }
    return true;
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
    written_ = 0;
    hash_.take();
}

void Slot::append(const std::byte* data, std::uint64_t bytes) {
    while (bytes > 0) {
        const std::uint64_t in_block = written_ % kBlockBytes;
        const auto part = static_cast<std::size_t>(std::min({bytes, kPartBytes, kBlockBytes - in_block}));
        std::byte* const to = memory_.data() + writing_.data_offset + written_;
        std::memcpy(to, data, part);
        hash_.update(to, part);
        written_ += part;
        data += part;
        bytes -= part;
        if (written_ % kBlockBytes != 0 && written_ != writing_.data_bytes) continue;
        const auto digest = hash_.take();
        std::memcpy(memory_.data() + kTableOffset + (written_ - 1) / kBlockBytes * sizeof digest, &digest,
                    sizeof digest);
    }
}

void Slot::finish() {
    if (written_ != writing_.data_bytes)
        throw Error(ErrorCode::invalid_argument, "a copy in memory has not the bytes that were announced");
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
    return header && header->name() == name && header->shard == shard && header->used_bytes == used_bytes;
}

}  // namespace autolaunch::memory
