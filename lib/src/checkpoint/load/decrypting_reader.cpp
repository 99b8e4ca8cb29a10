#include "checkpoint/load/decrypting_reader.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstring>
#include <string>

namespace autolaunch {
namespace {

static_assert(Manifest::kBlockBytes % age::kChunkBytes == 0);

}  // namespace

DecryptingReader::DecryptingReader(Storage& storage, const std::filesystem::path& directory,
                                   const Manifest::File& expected, const ReadKeys& keys)
    : expected_(expected),
      plain_bytes_(expected.plain_bytes.value()),
      stored_(storage, directory, expected, {}, keys.check) {
    const std::string path = (directory / expected.name).string();
    if (keys.identities.empty())
        throw Error(ErrorCode::unsupported, path + " is encrypted, and no key was given",
                    "give the secret key of one of its recipients, or open it with age -d");
    std::string start;
    const std::size_t first = 0;
    stored_.read(std::span(&first, 1), [&](std::size_t, std::span<const std::byte> content) {
        start.assign(reinterpret_cast<const char*>(content.data()),
                     std::min(content.size(), age::kMaxHeaderBytes + age::kNonceBytes));
    });
    try {
        opened_.push_back(age::open_file_start(start, keys.identities));
        if (age::plain_bytes(expected.bytes - opened_[0].start_bytes) != plain_bytes_)
            throw Error(ErrorCode::corrupt, "it does not have the size that the manifest says");
    } catch (const Error& error) {
        throw Error(error.code(), path + ": " + error.what(), error.hint());
    }
}

DecryptingReader::Range DecryptingReader::stored_blocks_of(std::size_t index) const {
    const std::uint64_t begin = index * Manifest::kBlockBytes,
                        end = std::min(begin + Manifest::kBlockBytes, plain_bytes_);
    const std::uint64_t start = opened_[0].start_bytes;
    const std::uint64_t chunks =
        (end + age::kChunkBytes - 1) / age::kChunkBytes;  // up to the block's end
    return {(start + begin / age::kChunkBytes * age::kSealedChunkBytes) / Manifest::kBlockBytes,
            (start + end + chunks * age::kTagBytes - 1) / Manifest::kBlockBytes};
}

void DecryptingReader::read(std::span<const std::size_t> indices, const BlockReader::Use& use) {
    std::vector<std::size_t> wanted;  // stored blocks, each once
    for (const std::size_t index : indices) {
        const Range range = stored_blocks_of(index);
        for (std::size_t block = range.first; block <= range.last; ++block)
            if (wanted.empty() || block > wanted.back())
                wanted.push_back(block);
    }
    held_.clear();
    std::size_t next = 0;
    stored_.read(wanted, [&](std::size_t stored, std::span<const std::byte> content) {
        held_.push_back({stored, {content.begin(), content.end()}});
        for (; next < indices.size() && stored_blocks_of(indices[next]).last <= stored; ++next)
            use(indices[next], open_block(indices[next]));
        while (!held_.empty() && (next == indices.size() ||
                                  held_.front().index < stored_blocks_of(indices[next]).first))
            held_.pop_front();
    });
}

std::span<const std::byte> DecryptingReader::open_block(std::size_t index) {
    const std::uint64_t begin = index * Manifest::kBlockBytes,
                        end = std::min(begin + Manifest::kBlockBytes, plain_bytes_);
    plain_.resize(end - begin);
    for (std::uint64_t at = begin; at < end; at += age::kChunkBytes) {
        const std::uint64_t bytes = std::min<std::uint64_t>(age::kChunkBytes, end - at);
        const std::uint64_t chunk = at / age::kChunkBytes;
        sealed_.resize(bytes + age::kTagBytes);
        gather(opened_[0].start_bytes + chunk * age::kSealedChunkBytes, sealed_);
        try {
            opened_[0].payload.open(chunk, at + bytes == plain_bytes_, sealed_,
                                    std::span(plain_).subspan(at - begin, bytes));
        } catch (const Error& error) {
            throw Error(error.code(), expected_.name + ": " + error.what(),
                        "load an older checkpoint");
        }
    }
    return plain_;
}

// Of the stored bytes that are held.
void DecryptingReader::gather(std::uint64_t offset, std::span<std::byte> to) const {
    for (const Held& held : held_) {
        const std::uint64_t begin = held.index * Manifest::kBlockBytes,
                            end = begin + held.content.size();
        const std::uint64_t first = std::max(begin, offset),
                            last = std::min(end, offset + to.size());
        if (first < last)
            std::memcpy(to.data() + (first - offset), held.content.data() + (first - begin),
                        last - first);
    }
}

}  // namespace autolaunch
