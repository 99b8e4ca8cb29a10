#pragma once
#include "checkpoint/age/age_file.hpp"
#include "checkpoint/save/file_writer.hpp"
#include "checkpoint/storage/aligned_memory.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/checkpoint/manifest.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace autolaunch {

/// Seals the chunks of planned files on their way to the storage. Owner: one save; the files must
/// outlive it. Threads: one. Blocks: as the source of the plaintext does.
class EncryptingSource final : public ChunkSource {
public:
    EncryptingSource(ChunkSource& plain, std::span<const PlannedFile> files,
                     std::span<const age::Recipient> recipients);

    /// Names and sizes of what is stored; the rest is empty.
    std::span<const PlannedFile> stored() const { return stored_; }
    /// Says in the fragment of a manifest what is stored instead of the plain files.
    void describe(Manifest& fragment) const;

    std::byte* take(std::size_t index) override;
    void give_back(std::byte* memory) override { free_.push_back(memory); }

private:
    void fill(std::span<std::byte> stored);
    void seal_next();
    std::span<const std::byte> next_plain();

    ChunkSource& plain_;
    std::span<const PlannedFile> files_;
    std::vector<age::NewFile> keys_;
    std::vector<PlannedFile> stored_;
    std::vector<FileChunk> stored_chunks_;

    AlignedMemory memory_;
    std::vector<std::byte*> free_;
    std::size_t file_ = 0;            ///< that is being sealed
    std::uint64_t sealed_plain_ = 0;  ///< of it
    std::vector<std::byte> pending_;  ///< sealed, not given out yet
    std::size_t pending_at_ = 0;
    std::size_t next_chunk_ = 0;  ///< of the plaintext
    std::byte* chunk_ = nullptr;  ///< the one that is being sealed
};

/// SHA-256, too, where files are encrypted or the manifest gets a MAC.
BlockHashes hashes_for(const EncryptionOptions& options);

/// Writes a plan's files, encrypted where there are recipients, and returns the plan's fragment of
/// what is stored. The progress is of the plan's bytes. As write_files() else.
Manifest write_shards(Storage& storage, const std::filesystem::path& directory,
                      const WritePlan& plan, ChunkSource& source,
                      std::span<const age::Recipient> recipients, BlockHashes hashes,
                      const WriteProgress& progress = {});

}  // namespace autolaunch
