#pragma once
#include <autolaunch/checkpoint/manifest.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace autolaunch {

// What a rank is going to write, before anything is written: the boundary between the format (which bytes, and where
// they are described) and the storage (how they get to a disk, and what their digests are).

/// A run of bytes in memory and its place in a file.
struct Segment {
    const std::byte* memory = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t file_offset = 0;
};

/// One file. The header is its start; the segments follow in order, without gaps or overlaps, and end it.
struct PlannedFile {
    std::string name;    ///< within the checkpoint's directory
    std::string header;  ///< a multiple of 4 KiB, so that the segments start on a page
    std::vector<Segment> segments;
    std::uint64_t bytes = 0;  ///< header and segments
};

struct WritePlan {
    std::vector<PlannedFile> files;
    /// The part of the manifest that describes these files, in their order; their digests are still empty.
    Manifest fragment;
};

/// Pure: what rank `rank` of `world_size` writes of its state. Memory is only pointed at.
WritePlan plan_shards(const fsdp::State& state, std::int64_t step, int rank, int world_size);

}  // namespace autolaunch
