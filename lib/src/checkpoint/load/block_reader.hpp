#pragma once
#include "checkpoint/load/read_keys.hpp"
#include "checkpoint/storage/aligned_memory.hpp"
#include "checkpoint/storage/storage.hpp"

#include <autolaunch/checkpoint/manifest.hpp>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace autolaunch {

/// Reads blocks of one file, several ahead of their use, and verifies each against its digest
/// before it is used. Threads: one. Blocks: read(). Throws Error{corrupt} that names file and
/// bytes.
class BlockReader {
public:
    /// What lies in a range of the file's bytes, for errors.
    using Describe = std::function<std::string(std::uint64_t begin, std::uint64_t end)>;

    /// Opens the file anew and compares its size.
    BlockReader(Storage& storage, const std::filesystem::path& directory,
                const Manifest::File& expected, Describe describe = {},
                BlockCheck check = BlockCheck::accidents);

    using Use = std::function<void(std::size_t index, std::span<const std::byte> content)>;
    /// Blocks `indices` (ascending), each once and in order. The content is there during the call
    /// only.
    void read(std::span<const std::size_t> indices, const Use& use);
    void read_all(const Use& use);

private:
    std::uint64_t bytes_of(std::size_t index) const noexcept;
    void start(std::size_t index, std::size_t slot);
    bool is_as_saved(std::size_t index, std::span<const std::byte> content) const;
    void require_as_saved(std::size_t index, std::span<const std::byte> content) const;

    const Manifest::File& expected_;
    std::filesystem::path path_;
    Describe describe_;
    BlockCheck check_;
    AlignedMemory memory_;
    std::unique_ptr<StorageFile> file_;  // last: closing it waits for what is under way
};

}  // namespace autolaunch
