#include "checkpoint/load/block_reader.hpp"

#include "base/hash.hpp"
#include "checkpoint/crypto/crypto.hpp"
#include "checkpoint/storage/stale.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch {

namespace {}

BlockReader::BlockReader(Storage& storage, const std::filesystem::path& directory,
                         const Manifest::File& expected, Describe describe, BlockCheck check)
    : expected_(expected),
      path_(directory / expected.name),
      describe_(std::move(describe)),
      check_(check) {
    const std::uint64_t bytes = again_if_stale([&] {
        file_ = storage.open_large(path_);
        return file_->size();
    });
    if (bytes != expected.bytes)
        throw Error(ErrorCode::corrupt, path_.string() + " has " + std::to_string(bytes) +
                                            " bytes, not " + std::to_string(expected.bytes));
    if (check == BlockCheck::tampering &&
        expected.block_sha256.size() != expected.block_digests.size())
        throw Error(ErrorCode::corrupt, "the manifest has no SHA-256 of " + path_.string());
}

std::uint64_t BlockReader::bytes_of(std::size_t index) const noexcept {
    return std::min(Manifest::kBlockBytes, expected_.bytes - index * Manifest::kBlockBytes);
}

void BlockReader::start(std::size_t index, std::size_t slot) {
    // Whole pages, as direct reads want them; the file's end makes the last one shorter.
    const std::uint64_t pages = (bytes_of(index) + kBlockAlignment - 1) / kBlockAlignment;
    file_->start_read(index * Manifest::kBlockBytes,
                      memory_.part(slot * Manifest::kBlockBytes, pages * kBlockAlignment), slot);
}

void BlockReader::read(std::span<const std::size_t> indices, const Use& use) {
    const std::size_t slots = std::min<std::size_t>(indices.size(), kBlockDepth);
    if (memory_.bytes() < slots * Manifest::kBlockBytes)
        memory_ = AlignedMemory(slots * Manifest::kBlockBytes);
    std::array<std::optional<std::size_t>, kBlockDepth> finished;  // bytes, by slot
    std::size_t started = 0;
    for (; started < slots; ++started)
        start(indices[started], started);
    for (std::size_t next = 0; next < indices.size(); ++next) {
        const std::size_t slot = next % kBlockDepth;
        while (!finished[slot]) {
            const StorageFile::Finished one = file_->finish_one();
            finished.at(one.tag) = one.bytes;
        }
        const std::uint64_t bytes =
            std::min<std::uint64_t>(bytes_of(indices[next]), *finished[slot]);
        const auto content = memory_.part(slot * Manifest::kBlockBytes, bytes);
        require_as_saved(indices[next], content);
        use(indices[next], content);
        finished[slot].reset();
        if (started < indices.size())
            start(indices[started++], slot);
    }
}

void BlockReader::read_all(const Use& use) {
    std::vector<std::size_t> indices(expected_.block_digests.size());
    std::iota(indices.begin(), indices.end(), 0);
    read(indices, use);
}

bool BlockReader::is_as_saved(std::size_t index, std::span<const std::byte> content) const {
    if (content.size() != bytes_of(index))
        return false;
    if (check_ == BlockCheck::accidents)
        return hash128(content.data(), content.size()) == expected_.block_digests[index];
    const crypto::Bytes bytes(reinterpret_cast<const std::uint8_t*>(content.data()),
                              content.size());
    return crypto::sha256(bytes) == expected_.block_sha256[index];
}

void BlockReader::require_as_saved(std::size_t index, std::span<const std::byte> content) const {
    if (is_as_saved(index, content))
        return;
    const std::uint64_t begin = index * Manifest::kBlockBytes, end = begin + bytes_of(index);
    const std::string content_is = describe_ ? " (" + describe_(begin, end) + ")" : "";
    throw Error(ErrorCode::corrupt,
                path_.string() + " does not hold what was saved: bytes " + std::to_string(begin) +
                    " to " + std::to_string(end) + content_is + " have another digest",
                check_ == BlockCheck::tampering
                    ? "the file was changed after it was saved; load an older checkpoint"
                    : "the file was damaged after it was saved; load an older checkpoint");
}

}  // namespace autolaunch
