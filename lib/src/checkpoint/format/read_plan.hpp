#pragma once
#include "checkpoint/format/tensor_index.hpp"

#include <autolaunch/checkpoint/manifest.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace autolaunch {

// What a rank reads, before anything is read: a function of the manifest and of what the rank
// wants, so no rank has to ask another. Pure.

/// One copy, from a part of a file to memory.
struct ReadPart {
    std::size_t file_index = 0;
    std::uint64_t file_offset = 0;
    std::uint64_t bytes = 0;  ///< in the file
    std::byte* to = nullptr;
    DataType stored = DataType::u8;
    DataType wanted = DataType::u8;
    bool shared = false;  ///< every rank of the job does the same: it holds the whole tensor
};

struct ReadRules {
    bool cast = false;  ///< f32, bf16 and f16 become each other; otherwise another type is an error
    bool allow_missing = false;  ///< tensors that the checkpoint has not keep what they hold
};

struct ReadPlan {
    std::vector<ReadPart> parts;       ///< by file and offset
    std::vector<std::string> missing;  ///< tensors of the state that the checkpoint has not
};

/// The copies that fill the state from a checkpoint. Throws Error{mismatch} for a tensor that is
/// missing or has another shape or type, where the rules do not allow it.
ReadPlan plan_loading(const Manifest& manifest, const fsdp::State& state,
                      const ReadRules& rules = {});
/// The same, for whoever plans more than once.
ReadPlan plan_loading(const TensorIndex& tensors, const fsdp::State& state,
                      const ReadRules& rules = {});

/// A block of a file, and the parts that lie in it, also partly.
struct BlockNeed {
    std::size_t file_index = 0;
    std::size_t block = 0;
    bool shared = false;  ///< every rank needs it
    std::vector<std::size_t> parts;
};

/// Every block that has something of the parts, once, by file and offset. Ranks that load the same
/// names agree about which are shared, and about their order.
std::vector<BlockNeed> blocks_needed(std::span<const ReadPart> parts);

/// The part of `count` shared blocks that a member of a group reads for all of it: a run, so that
/// files are read in order. All parts have `rounds` blocks, but the last ones may have fewer or
/// none.
struct ShareOfBlocks {
    std::size_t first = 0;
    std::size_t last = 0;  ///< one past
    std::size_t rounds = 0;
};
ShareOfBlocks share_of_blocks(std::size_t count, int member, int members);

/// Copies what of a part lies in a block that starts at byte `block_begin` of its file.
void copy_part(const ReadPart& part, std::uint64_t block_begin, std::span<const std::byte> block);

/// What lies in bytes `begin` to `end` of a file, for an error: "tensor h.0.w from element 4096,
/// and 2 more"; the file's header has a name too.
std::string content_at(const Manifest& manifest, std::size_t file_index, std::uint64_t begin,
                       std::uint64_t end);

}  // namespace autolaunch
