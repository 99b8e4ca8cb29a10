#pragma once
// The bytes of a copy of a shard in memory: docs/memory-checkpoints.md. Written and read by ranks;
// the agent only keeps the file.
#include <autolaunch/checkpoint/manifest.hpp>
#include <autolaunch/digest.hpp>

#include <bit>
#include <compare>
#include <cstdint>
#include <type_traits>

namespace autolaunch::memory {

static_assert(std::endian::native == std::endian::little, "copies in memory are little-endian");

inline constexpr std::uint64_t kMagic = 0x5950'4f43'4d45'4d41;  // "AMEMCOPY"
inline constexpr std::uint32_t kLayoutVersion = 1;
inline constexpr std::uint64_t kPage = 4096;
inline constexpr std::uint64_t kBlockBytes = Manifest::kBlockBytes;
inline constexpr int kSlots = 2;

/// Which save a copy is of. Ordered by what a restart prefers: the later step, then the later
/// attempt.
struct SaveName {
    std::int64_t step = 0;
    std::int32_t generation = 0;
    std::int64_t sequence = 0;  ///< of the saves in a generation; equal on all ranks

    auto operator<=>(const SaveName&) const = default;
};

/// The second cache line and on; the first holds the commit word alone, which is never sent to
/// another rank.
struct Header {
    std::uint64_t magic = kMagic;
    std::uint32_t layout_version = kLayoutVersion;
    std::int32_t generation = 0;
    std::int64_t step = 0;
    std::int64_t sequence = 0;
    std::int32_t shard = 0;
    std::int32_t world_size = 0;
    std::uint64_t used_bytes = 0;   ///< of the file: its start to the end of the data
    std::uint64_t data_offset = 0;  ///< on a page
    std::uint64_t data_bytes = 0;
    std::uint64_t text_bytes = 0;  ///< of the contents in words, behind the digests of the blocks
    Digest128 table_digest = {};   ///< of the digests and the text

    SaveName name() const { return {step, generation, sequence}; }
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 88, "no padding");

inline constexpr std::uint64_t kCommitOffset = 0;  ///< 0: being written; else header_digest()
inline constexpr std::uint64_t kHeaderOffset = 64;
inline constexpr std::uint64_t kTableOffset =
    kPage;  ///< 16 bytes a block, high half first; then the text

constexpr std::uint64_t round_to_page(std::uint64_t bytes) {
    return (bytes + kPage - 1) / kPage * kPage;
}
constexpr std::uint64_t block_count(std::uint64_t data_bytes) {
    return (data_bytes + kBlockBytes - 1) / kBlockBytes;
}
constexpr std::uint64_t data_offset_for(std::uint64_t data_bytes, std::uint64_t text_bytes) {
    return kTableOffset + round_to_page(block_count(data_bytes) * sizeof(Digest128) + text_bytes);
}

}  // namespace autolaunch::memory
