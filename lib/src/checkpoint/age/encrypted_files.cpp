#include "checkpoint/age/encrypted_files.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace autolaunch {
namespace {

constexpr std::uint64_t kUnit = age::kChunkBytes;  // what is sealed at once
constexpr std::uint64_t kTag = age::kSealedChunkBytes - age::kChunkBytes;
constexpr std::uint64_t kBlock = Manifest::kBlockBytes;
constexpr std::uint64_t kWrite = autolaunch::kChunkBytes;  // of the writer; a multiple of age's chunks
constexpr std::size_t kBuffers = kBlockDepth;
constexpr std::chrono::minutes kCommandTime(1);
static_assert(kWrite % kUnit == 0 && kBlock % kUnit == 0);

}  // namespace

std::vector<age::Recipient> parse_recipients(const EncryptionOptions& options) {
    std::vector<age::Recipient> recipients;
    for (const std::string& text : options.recipients) {
        try {
            recipients.push_back(age::Recipient::parse(text));
        } catch (const Error& error) {
            throw Error(error.code(),
                        "encryption.recipients[" + std::to_string(recipients.size()) + "]: " + error.what(),
                        error.hint());
        }
    }
    return recipients;
}

std::vector<age::Identity> find_identities(const EncryptionOptions& options) {
    if (!options.identity_file.empty()) return age::read_identities(options.identity_file);
    if (!options.identity_command.empty())
        return age::identities_of_command(options.identity_command, Deadline::after(kCommandTime));
    throw Error(ErrorCode::invalid_argument, "the checkpoint is encrypted, and no key was given",
                "set encryption.identity_file or encryption.identity_command");
}

EncryptingSource::EncryptingSource(ChunkSource& plain, std::span<const PlannedFile> files,
                                   std::span<const age::Recipient> recipients)
    : plain_(plain), files_(files), memory_(kBuffers * kWrite) {
    for (const PlannedFile& file : files) {
        keys_.push_back(age::start_file(recipients));
        PlannedFile stored;
        stored.name = file.name + kEncryptedSuffix;
        stored.bytes = keys_.back().start.size() + age::sealed_bytes(file.bytes);
        stored_.push_back(std::move(stored));
    }
    stored_chunks_ = chunks_of(stored_);
    for (std::size_t i = 0; i < kBuffers; ++i) free_.push_back(memory_.data() + i * kWrite);
}

void EncryptingSource::describe(Manifest& fragment) const {
    for (std::size_t i = 0; i < stored_.size(); ++i) {
        fragment.files.at(i).plain_bytes = fragment.files[i].bytes;
        fragment.files[i].name = stored_[i].name;
        fragment.files[i].bytes = stored_[i].bytes;
    }
}

std::byte* EncryptingSource::take(std::size_t index) {
    if (free_.empty()) return nullptr;
    std::byte* const memory = free_.back();
    free_.pop_back();
    const FileChunk& chunk = stored_chunks_[index];
    if (chunk.offset == 0) {
        file_ = chunk.file_index;
        sealed_plain_ = 0;
        const auto start = std::as_bytes(std::span(keys_[file_].start));
        pending_.assign(start.begin(), start.end());
        pending_at_ = 0;
    }
    fill({memory, static_cast<std::size_t>(chunk.bytes)});
    return memory;
}

void EncryptingSource::fill(std::span<std::byte> stored) {
    while (!stored.empty()) {
        if (pending_at_ == pending_.size()) seal_next();
        const std::size_t take = std::min(stored.size(), pending_.size() - pending_at_);
        std::memcpy(stored.data(), pending_.data() + pending_at_, take);
        pending_at_ += take;
        stored = stored.subspan(take);
    }
}

void EncryptingSource::seal_next() {
    const std::uint64_t index = sealed_plain_ / kUnit;
    const auto plain = next_plain();
    sealed_plain_ += plain.size();
    pending_.resize(plain.size() + kTag);
    pending_at_ = 0;
    keys_[file_].payload.seal(index, sealed_plain_ == files_[file_].bytes, plain, pending_);
    const bool used_up = sealed_plain_ % kWrite == 0 || sealed_plain_ == files_[file_].bytes;
    if (chunk_ != nullptr && used_up) {
        plain_.give_back(chunk_);
        chunk_ = nullptr;
    }
}

std::span<const std::byte> EncryptingSource::next_plain() {
    const std::uint64_t left = files_[file_].bytes - sealed_plain_;
    if (left == 0) return {};
    if (chunk_ == nullptr) chunk_ = plain_.take(next_chunk_++);
    // This holds one of its chunks at most, so it cannot be out of memory.
    if (chunk_ == nullptr) throw Error(ErrorCode::system, "there is no memory for the next chunk to encrypt");
    return {chunk_ + sealed_plain_ % kWrite, static_cast<std::size_t>(std::min<std::uint64_t>(left, kUnit))};
}

DecryptingReader::DecryptingReader(Storage& storage, const std::filesystem::path& directory,
                                   const Manifest::File& expected, std::span<const age::Identity> identities)
    : expected_(expected), plain_bytes_(expected.plain_bytes.value()), stored_(storage, directory, expected) {
    const std::string path = (directory / expected.name).string();
    if (identities.empty())
        throw Error(ErrorCode::unsupported, path + " is encrypted, and no key was given",
                    "give the secret key of one of its recipients, or open it with age -d");
    std::string start;
    const std::size_t first = 0;
    stored_.read(std::span(&first, 1), [&](std::size_t, std::span<const std::byte> content) {
        start.assign(reinterpret_cast<const char*>(content.data()),
                     std::min(content.size(), age::kMaxHeaderBytes + age::kNonceBytes));
    });
    try {
        opened_.push_back(age::open_file_start(start, identities));
        if (age::plain_bytes(expected.bytes - opened_[0].start_bytes) != plain_bytes_)
            throw Error(ErrorCode::corrupt, "it does not have the size that the manifest says");
    } catch (const Error& error) {
        throw Error(error.code(), path + ": " + error.what(), error.hint());
    }
}

DecryptingReader::Range DecryptingReader::stored_blocks_of(std::size_t index) const {
    const std::uint64_t begin = index * kBlock, end = std::min(begin + kBlock, plain_bytes_);
    const std::uint64_t start = opened_[0].start_bytes;
    const std::uint64_t chunks = (end + kUnit - 1) / kUnit;  // up to the block's end
    return {(start + begin / kUnit * age::kSealedChunkBytes) / kBlock, (start + end + chunks * kTag - 1) / kBlock};
}

void DecryptingReader::read(std::span<const std::size_t> indices, const BlockReader::Use& use) {
    std::vector<std::size_t> wanted;  // stored blocks, each once
    for (const std::size_t index : indices) {
        const Range range = stored_blocks_of(index);
        for (std::size_t block = range.first; block <= range.last; ++block)
            if (wanted.empty() || block > wanted.back()) wanted.push_back(block);
    }
    held_.clear();
    std::size_t next = 0;
    stored_.read(wanted, [&](std::size_t stored, std::span<const std::byte> content) {
        held_.push_back({stored, {content.begin(), content.end()}});
        for (; next < indices.size() && stored_blocks_of(indices[next]).last <= stored; ++next)
            use(indices[next], open_block(indices[next]));
        while (!held_.empty() &&
               (next == indices.size() || held_.front().index < stored_blocks_of(indices[next]).first))
            held_.pop_front();
    });
}

std::span<const std::byte> DecryptingReader::open_block(std::size_t index) {
    const std::uint64_t begin = index * kBlock, end = std::min(begin + kBlock, plain_bytes_);
    plain_.resize(end - begin);
    for (std::uint64_t at = begin; at < end; at += kUnit) {
        const std::uint64_t bytes = std::min<std::uint64_t>(kUnit, end - at);
        const std::uint64_t chunk = at / kUnit;
        sealed_.resize(bytes + kTag);
        gather(opened_[0].start_bytes + chunk * age::kSealedChunkBytes, sealed_);
        try {
            opened_[0].payload.open(chunk, at + bytes == plain_bytes_, sealed_,
                                    std::span(plain_).subspan(at - begin, bytes));
        } catch (const Error& error) {
            throw Error(error.code(), expected_.name + ": " + error.what(), "load an older checkpoint");
        }
    }
    return plain_;
}

// Of the stored bytes that are held.
void DecryptingReader::gather(std::uint64_t offset, std::span<std::byte> to) const {
    for (const Held& held : held_) {
        const std::uint64_t begin = held.index * kBlock, end = begin + held.content.size();
        const std::uint64_t first = std::max(begin, offset), last = std::min(end, offset + to.size());
        if (first < last)
            std::memcpy(to.data() + (first - offset), held.content.data() + (first - begin), last - first);
    }
}

}  // namespace autolaunch
