#pragma once
#include "checkpoint/format/write_plan.hpp"
#include "checkpoint/storage/storage.hpp"

#include <autolaunch/checkpoint/manifest.hpp>
#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace autolaunch {

// How planned files get to the storage: in chunks of 8 MiB, several under way, each digested on its
// way.

inline constexpr std::uint64_t kChunkBytes = 2 * Manifest::kBlockBytes;

/// A part of a planned file, on a multiple of kChunkBytes; all are that long but a file's last.
struct FileChunk {
    std::size_t file_index = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
};

/// All chunks of the files, in order. Pure.
std::vector<FileChunk> chunks_of(std::span<const PlannedFile> files);
/// Whether what is copied is read at once, or only when the caches have forgotten it.
enum class CopyFor { now, later };
/// Copies bytes [offset, offset + bytes) of a planned file, from its header and its segments; waits
/// for those that are on their way. Any thread.
void copy_range(const PlannedFile& file, std::uint64_t offset, std::uint64_t bytes, std::byte* to,
                CopyFor use = CopyFor::now);
/// The same where the range lies in pieces; where it lies in one, that itself.
const std::byte* range_of(const PlannedFile& file, std::uint64_t offset, std::uint64_t bytes,
                          std::byte* scratch);

/// Where the writer takes the content of chunks from: memory of kChunkBytes on a page.
class AUTOLAUNCH_API ChunkSource {
public:
    virtual ~ChunkSource() = default;
    /// Called for chunk 0, 1, 2, … in order. May block until the content is there. Null: all memory
    /// is in use by the writer, which must give some back first.
    virtual std::byte* take(std::size_t index) = 0;
    virtual void give_back(std::byte* memory) = 0;
};

/// SHA-256 costs about ten times what XXH3 does; for checkpoints that are encrypted or get a MAC.
enum class BlockHashes { xxh3, xxh3_and_sha256 };

/// A source that the writer may look into before it takes anything, and take only parts of.
class AUTOLAUNCH_API StateSource : public ChunkSource {
public:
    /// The content of any chunk, before the first is taken or skipped; at `scratch`, of
    /// kChunkBytes, where it is not in memory that stays. May block until it is there.
    virtual const std::byte* peek(std::size_t index, std::byte* scratch) = 0;
    /// Instead of take(): nobody wants this one. The writer holds no chunk then.
    virtual void skip(std::size_t index) = 0;
};

using WriteProgress = std::function<void(std::uint64_t bytes_written)>;

/// Writes the files of a plan into a directory, syncs them and then the directory. Returns the
/// digests of each file's blocks. Threads: one. Blocks: until all is durable. Throws SystemError,
/// with the path.
std::vector<BlockDigests> write_files(Storage& storage, const std::filesystem::path& directory,
                                      std::span<const PlannedFile> files, ChunkSource& source,
                                      const WriteProgress& progress = {},
                                      BlockHashes hashes = BlockHashes::xxh3);
/// Straight from the plan's memory, which must outlive it, through kBlockDepth chunks.
std::unique_ptr<StateSource> source_of(const WritePlan& plan);
/// The same from there.
std::vector<BlockDigests> write_files(Storage& storage, const std::filesystem::path& directory,
                                      const WritePlan& plan);

}  // namespace autolaunch
