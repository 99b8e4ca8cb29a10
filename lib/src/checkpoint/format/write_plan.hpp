#pragma once
#include <autolaunch/checkpoint/manifest.hpp>
#include <autolaunch/checkpoint/opaque_state.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace autolaunch {

// What a rank is going to write, before anything is written: the boundary between the format (which
// bytes, and where they are described) and the storage (how they get to a disk, and what their
// digests are).

/// A run of bytes in memory and its place in a file.
struct Segment {
    const std::byte* memory = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t file_offset = 0;
    std::shared_ptr<const fsdp::StateArrival> arrival =
        {};  ///< of the bytes in memory; null: they are there
};

/// One file. The header is its start; the segments follow in order, without gaps or overlaps, and
/// end it.
struct PlannedFile {
    std::string name;    ///< within the checkpoint's directory
    std::string header;  ///< a multiple of 4 KiB, so that the segments start on a page
    std::vector<Segment> segments;
    std::uint64_t bytes = 0;  ///< header and segments
    bool frozen =
        false;  ///< of frozen tensors alone; equal ones give equal bytes, whatever the step
};

struct WritePlan {
    std::vector<PlannedFile> files;
    /// The part of the manifest that describes these files, in their order; their digests are still
    /// empty.
    Manifest fragment;
};

/// Pure: what rank `rank` of `world_size` writes of its state: its own pieces of it, as boxes
/// (run_boxes.hpp), and of the replicated tensors those it owns. The owner of a replicated tensor
/// is the rank that has the fewest bytes of them so far, so that all write about as much; frozen
/// ones count apart. A file holds one box of a tensor, so a rank has as many files as the tensor
/// with the most boxes, and as many again of frozen tensors; none when it has nothing. Memory is
/// only pointed at. The fragment names the tensors that this rank has something of; rank 0's names
/// all of the state's.
WritePlan plan_shards(const fsdp::State& state, std::int64_t step, int rank, int world_size,
                      std::span<const OpaqueState> opaque = {});

/// Of a file's blocks, in order.
struct BlockDigests {
    std::vector<Digest128> xxh3;
    std::vector<Digest256> sha256 = {};  ///< empty where nobody asked for them
};

/// The plan's fragment with the digests that writing each file gave.
Manifest described(const WritePlan& plan, std::vector<BlockDigests> digests);

/// One manifest of the ranks' fragments in rank order. Step, world and the like are the first
/// one's. Throws Error{mismatch} where they disagree about a tensor's shape or type.
Manifest merge_fragments(std::vector<Manifest> fragments);

}  // namespace autolaunch
