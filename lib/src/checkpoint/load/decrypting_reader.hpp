#pragma once
#include "checkpoint/age/age_file.hpp"
#include "checkpoint/load/block_reader.hpp"

#include <autolaunch/checkpoint/manifest.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <span>
#include <vector>

namespace autolaunch {

/// Blocks of the plaintext of an encrypted file: what is stored is verified against the manifest's
/// digests, and each chunk then opened. Threads: one. Blocks: read(). Throws Error{corrupt}, and
/// Error{mismatch} for other keys.
class DecryptingReader {
public:
    DecryptingReader(Storage& storage, const std::filesystem::path& directory,
                     const Manifest::File& expected, const ReadKeys& keys);

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
