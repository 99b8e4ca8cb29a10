#pragma once
#include "checkpoint/storage.hpp"

#include <autolaunch/checkpoint/manifest.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace autolaunch {

/// One run of elements for a rank's shard file.
struct ShardPiece {
    std::size_t tensor_index = 0;  ///< in the State
    fsdp::StateTensor::Piece piece;
};

/// What this rank writes: its own pieces, and of the replicated tensors those it owns, wide types first so that every
/// element is aligned. The owner of a replicated tensor is the rank that has the fewest bytes of them so far, so that
/// all write about as much. Pure.
std::vector<ShardPiece> pieces_to_write(const fsdp::State& state, int rank, int world_size);

/// A piece's name in the shard file: the tensor's when the piece is all of it, else "<tensor>@<first element>".
std::string piece_name(const fsdp::StateTensor& tensor, const fsdp::StateTensor::Piece& piece);

/// Writes the shard `name` in `directory` and syncs it and the directory. Returns the fragment of the manifest that
/// describes it: one file, and every tensor of the state with the pieces that this file holds.
Manifest write_shard(Storage& storage, const std::filesystem::path& directory, const std::string& name,
                     const fsdp::State& state, std::int64_t step, int rank, int world_size);

/// Reads a shard anew and compares size and digests; Error{corrupt} says what differs.
void verify_file(Storage& storage, const std::filesystem::path& directory, const Manifest::File& expected);

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
