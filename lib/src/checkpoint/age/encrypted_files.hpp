#pragma once
#include "checkpoint/age/age_file.hpp"
#include "checkpoint/block_reader.hpp"
#include "checkpoint/file_writer.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/checkpoint/manifest.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace autolaunch {

// Shards that are stored as files of age. The manifest's sizes and digests are of what is stored, so that it is copied
// and verified without a key; pieces are places in the plaintext.

inline constexpr char kEncryptedSuffix[] = ".age";

/// Of the options' recipients. Throws Error{invalid_argument} with the number of the one that is none.
std::vector<age::Recipient> parse_recipients(const EncryptionOptions& options);
/// From the options' file or command; Error{invalid_argument} where there is neither. Blocks: while the command runs,
/// at most a minute.
std::vector<age::Identity> find_identities(const EncryptionOptions& options);

/// Seals the chunks of planned files on their way to the storage. Owner: one save; the files must outlive it. Threads:
/// one. Blocks: as the source of the plaintext does.
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

/// Blocks of the plaintext of an encrypted file: what is stored is verified against the manifest's digests, and each
/// chunk then opened. Threads: one. Blocks: read(). Throws Error{corrupt}, and Error{mismatch} for other keys.
class DecryptingReader {
public:
    DecryptingReader(Storage& storage, const std::filesystem::path& directory, const Manifest::File& expected,
                     std::span<const age::Identity> identities);

    /// As BlockReader::read(), in blocks of the plaintext.
    void read(std::span<const std::size_t> indices, const BlockReader::Use& use);

private:
    struct Held {
        std::size_t index = 0;
        std::vector<std::byte> content;
    };
    struct Range {
        std::size_t first = 0, last = 0;  ///< stored blocks, both included
    };

    Range stored_blocks_of(std::size_t index) const;
    std::span<const std::byte> open_block(std::size_t index);
    void gather(std::uint64_t offset, std::span<std::byte> to) const;

    const Manifest::File& expected_;
    std::uint64_t plain_bytes_;
    BlockReader stored_;
    std::vector<age::OpenedFile> opened_;  ///< one
    std::deque<Held> held_;
    std::vector<std::byte> sealed_, plain_;
};

}  // namespace autolaunch
