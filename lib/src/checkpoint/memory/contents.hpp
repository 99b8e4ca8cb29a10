#pragma once
#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::memory {

/// A run of elements in a copy: which of which tensor, and where in the data.
struct SavedRun {
    std::string name;
    DataType type = DataType::f32;
    std::vector<std::int64_t> shape;  ///< of the whole tensor
    std::int64_t offset = 0;          ///< first element
    std::int64_t count = 0;
    std::uint64_t position = 0;  ///< byte in the data
};

/// What one rank's copy holds, in words: the text of a slot, a CBOR map
/// (docs/memory-checkpoints.md).
struct Contents {
    std::vector<SavedRun> runs;  ///< in the order of the data
    std::string extra;           ///< rank 0's
    std::map<std::string, std::string> shared_opaque, own_opaque;

    std::string encode() const;
    /// Throws Error{corrupt} for what is none, Error{unsupported} for a type of another version.
    static Contents decode(std::string_view text);
};

/// What one rank copies to memory. Pure.
struct CopyPieces {
    std::vector<const std::byte*> memory;  ///< by run
    std::uint64_t bytes = 0;
    Contents contents;
};

/// A rank copies its own pieces, also where another has the same (hybrid_shard), so that it
/// restores without the others; and of replicated tensors those that it owns: the owner is the rank
/// that owns the fewest bytes of them so far. The state must be valid (state_rules.hpp).
CopyPieces plan_copy(const fsdp::State& state, const SaveOptions& options, int rank,
                     int world_size);

/// What fills a state from this rank's copy. Pure.
struct FillPlan {
    struct Run {
        std::uint64_t position = 0;
        std::uint64_t bytes = 0;
        std::byte* to = nullptr;
    };
    std::vector<Run> runs;
    std::vector<std::uint8_t> owned;    ///< by tensor: it is replicated, and this copy has it
    std::vector<std::uint8_t> missing;  ///< by tensor: this rank needs of it what its copy has not
};

/// Throws Error{mismatch} naming the tensor where the copy has it with another type, shape or cut.
FillPlan plan_fill(const Contents& contents, const fsdp::State& state);

}  // namespace autolaunch::memory
