#pragma once
#include "checkpoint/storage.hpp"
#include "checkpoint/write_plan.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/checkpoint/manifest.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace autolaunch {

/// Opens a shard anew and compares its size and the digests of its first and its last block, or of all; Error{corrupt}
/// says what differs.
void verify_file(Storage& storage, const std::filesystem::path& directory, const Manifest::File& expected,
                 SaveVerification verification);

/// One copy from a file to memory.
struct ReadOperation {
    std::size_t file_index = 0;
    std::uint64_t file_offset = 0;
    std::uint64_t bytes = 0;
    std::byte* to = nullptr;
};

/// The copies that fill the state from a checkpoint, ordered by file and offset. Pure. Throws Error{mismatch} for a
/// tensor that is missing or has another shape or type.
std::vector<ReadOperation> plan_reads(const Manifest& manifest, const fsdp::State& state);

/// Does them. Every block that is touched is read once, whole, and verified before it is used.
void read_shards(Storage& storage, const std::filesystem::path& directory, const Manifest& manifest,
                 std::span<const ReadOperation> operations);

}  // namespace autolaunch
