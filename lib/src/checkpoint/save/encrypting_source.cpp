#include "checkpoint/save/encrypting_source.hpp"

#include "checkpoint/age/encryption_keys.hpp"
#include "checkpoint/commit/authentication.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstring>

namespace autolaunch {
namespace {

constexpr std::uint64_t kWrite =
    autolaunch::kChunkBytes;  // of the writer; a multiple of age's chunks
static_assert(kWrite % age::kChunkBytes == 0);

}  // namespace

EncryptingSource::EncryptingSource(ChunkSource& plain, std::span<const PlannedFile> files,
                                   std::span<const age::Recipient> recipients)
    : plain_(plain), files_(files), memory_(kBlockDepth * kWrite) {
    for (const PlannedFile& file : files) {
        keys_.push_back(age::start_file(recipients));
        PlannedFile stored;
        stored.name = file.name + kEncryptedSuffix;
        stored.bytes = keys_.back().start.size() + age::sealed_bytes(file.bytes);
        stored_.push_back(std::move(stored));
    }
    stored_chunks_ = chunks_of(stored_);
    for (std::size_t i = 0; i < kBlockDepth; ++i)
        free_.push_back(memory_.data() + i * kWrite);
}

void EncryptingSource::describe(Manifest& fragment) const {
    for (std::size_t i = 0; i < stored_.size(); ++i) {
        fragment.files.at(i).plain_bytes = fragment.files[i].bytes;
        fragment.files[i].name = stored_[i].name;
        fragment.files[i].bytes = stored_[i].bytes;
    }
}

std::byte* EncryptingSource::take(std::size_t index) {
    if (free_.empty())
        return nullptr;
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
        if (pending_at_ == pending_.size())
            seal_next();
        const std::size_t take = std::min(stored.size(), pending_.size() - pending_at_);
        std::memcpy(stored.data(), pending_.data() + pending_at_, take);
        pending_at_ += take;
        stored = stored.subspan(take);
    }
}

void EncryptingSource::seal_next() {
    const std::uint64_t index = sealed_plain_ / age::kChunkBytes;
    const auto plain = next_plain();
    sealed_plain_ += plain.size();
    pending_.resize(plain.size() + age::kTagBytes);
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
    if (left == 0)
        return {};
    if (chunk_ == nullptr)
        chunk_ = plain_.take(next_chunk_++);
    // This holds one of its chunks at most, so it cannot be out of memory.
    if (chunk_ == nullptr)
        throw Error(ErrorCode::system, "there is no memory for the next chunk to encrypt");
    return {chunk_ + sealed_plain_ % kWrite,
            static_cast<std::size_t>(std::min<std::uint64_t>(left, age::kChunkBytes))};
}

BlockHashes hashes_for(const EncryptionOptions& options) {
    const bool wanted = !options.recipients.empty() || is_authenticated(options) ||
                        !options.signing_key_file.empty();
    return wanted ? BlockHashes::xxh3_and_sha256 : BlockHashes::xxh3;
}

Manifest write_shards(Storage& storage, const std::filesystem::path& directory,
                      const WritePlan& plan, ChunkSource& source,
                      std::span<const age::Recipient> recipients, BlockHashes hashes,
                      const WriteProgress& progress) {
    if (recipients.empty())
        return described(plan,
                         write_files(storage, directory, plan.files, source, progress, hashes));
    EncryptingSource encrypted(source, plan.files, recipients);
    std::uint64_t total = 0;
    for (const PlannedFile& file : plan.files)
        total += file.bytes;
    const auto plain_progress = [&](std::uint64_t bytes) {
        if (progress)
            progress(std::min(bytes, total));
    };
    Manifest fragment = described(plan, write_files(storage, directory, encrypted.stored(),
                                                    encrypted, plain_progress, hashes));
    encrypted.describe(fragment);
    return fragment;
}

}  // namespace autolaunch
