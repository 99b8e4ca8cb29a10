#include "checkpoint/save/file_writer.hpp"

#include "base/hash.hpp"
#include "base/stream_bytes.hpp"
#include "checkpoint/crypto/crypto.hpp"
#include "checkpoint/storage/aligned_memory.hpp"

#include <algorithm>
#include <cstring>
#include <future>
#include <memory>

namespace autolaunch {

namespace {

std::uint64_t aligned(std::uint64_t bytes) {
    return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

void plain_copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

// One file on its way: which chunks are under way, and the digests of those that are.
class FileUnderWay {
public:
    FileUnderWay(Storage& storage, const std::filesystem::path& directory,
                 const PlannedFile& planned, ChunkSource& source, BlockHashes hashes)
        : planned_(planned),
          source_(source),
          hashes_(hashes),
          file_(storage.create_large(directory / planned.name)) {
        for (std::size_t tag = kBlockDepth; tag-- > 0;)
            free_tags_.push_back(tag);
        file_->reserve(aligned(planned.bytes));
    }
    FileUnderWay(const FileUnderWay&) = delete;

    bool is_full() const noexcept { return free_tags_.empty(); }
    bool is_idle() const noexcept { return free_tags_.size() == kBlockDepth; }

    void write(const FileChunk& chunk, std::byte* memory) {
        add_digests({memory, chunk.bytes});
        // Direct writes are of whole pages: the file is cut to its length at the end.
        const std::uint64_t padded = aligned(chunk.bytes);
        std::memset(memory + chunk.bytes, 0, padded - chunk.bytes);
        const std::size_t tag = free_tags_.back();
        free_tags_.pop_back();
        memory_[tag] = memory;
        file_->start_write(chunk.offset, {memory, padded}, tag);
    }

    std::uint64_t finish_one() {
        const StorageFile::Finished finished = file_->finish_one();
        free_tags_.push_back(finished.tag);
        source_.give_back(memory_[finished.tag]);
        return finished.bytes;
    }

    BlockDigests finish() {
        if (aligned(planned_.bytes) != planned_.bytes)
            file_->truncate(planned_.bytes);
        file_->sync();
        return std::move(digests_);
    }

private:
    // SHA-256 is the slowest of all that is done to a chunk: its blocks go side by side.
    void add_digests(std::span<const std::byte> chunk) {
        std::vector<std::future<Digest256>> others;
        const auto block_at = [&](std::size_t at) {
            return chunk.subspan(at, std::min(Manifest::kBlockBytes, chunk.size() - at));
        };
        if (hashes_ == BlockHashes::xxh3_and_sha256) {
            for (std::size_t at = Manifest::kBlockBytes; at < chunk.size();
                 at += Manifest::kBlockBytes)
                others.push_back(std::async(std::launch::async,
                                            [block = block_at(at)] { return sha256_of(block); }));
            digests_.sha256.push_back(sha256_of(block_at(0)));
        }
        for (std::size_t at = 0; at < chunk.size(); at += Manifest::kBlockBytes)
            digests_.xxh3.push_back(hash128(chunk.data() + at, block_at(at).size()));
        for (auto& other : others)
            digests_.sha256.push_back(other.get());
    }
    static Digest256 sha256_of(std::span<const std::byte> block) {
        return crypto::sha256({reinterpret_cast<const std::uint8_t*>(block.data()), block.size()});
    }

    const PlannedFile& planned_;
    ChunkSource& source_;
    BlockHashes hashes_;
    std::vector<std::size_t> free_tags_;
    std::byte* memory_[kBlockDepth] = {};
    BlockDigests digests_;
    std::unique_ptr<StorageFile> file_;  // last: closing it waits for what is under way
};

// Copies a chunk when it is asked for.
class PlanSource final : public StateSource {
public:
    explicit PlanSource(const WritePlan& plan) : plan_(plan), chunks_(chunks_of(plan.files)) {
        const std::size_t count = std::min<std::size_t>(chunks_.size(), kBlockDepth);
        memory_ = AlignedMemory(count * kChunkBytes);
        for (std::size_t i = 0; i < count; ++i)
            free_.push_back(memory_.data() + i * kChunkBytes);
    }

    std::byte* take(std::size_t index) override {
        if (free_.empty())
            return nullptr;
        std::byte* const memory = free_.back();
        free_.pop_back();
        const FileChunk& chunk = chunks_[index];
        copy_range(plan_.files[chunk.file_index], chunk.offset, chunk.bytes, memory, CopyFor::now);
        return memory;
    }
    void give_back(std::byte* memory) override { free_.push_back(memory); }
    const std::byte* peek(std::size_t index, std::byte* scratch) override {
        const FileChunk& chunk = chunks_[index];
        return range_of(plan_.files[chunk.file_index], chunk.offset, chunk.bytes, scratch);
    }
    void skip(std::size_t) override {}

private:
    const WritePlan& plan_;
    std::vector<FileChunk> chunks_;
    AlignedMemory memory_;
    std::vector<std::byte*> free_;
};

// The last segment that starts at `offset` or before; the first where none does.
std::vector<Segment>::const_iterator segment_before(const PlannedFile& file, std::uint64_t offset) {
    auto segment = std::upper_bound(
        file.segments.begin(), file.segments.end(), offset,
        [](std::uint64_t at, const Segment& item) { return at < item.file_offset; });
    if (segment != file.segments.begin())
        --segment;
    return segment;
}

}  // namespace

std::vector<FileChunk> chunks_of(std::span<const PlannedFile> files) {
    std::vector<FileChunk> chunks;
    for (std::size_t i = 0; i < files.size(); ++i)
        for (std::uint64_t offset = 0; offset < files[i].bytes; offset += kChunkBytes)
            chunks.push_back({i, offset, std::min(kChunkBytes, files[i].bytes - offset)});
    return chunks;
}

const std::byte* range_of(const PlannedFile& file, std::uint64_t offset, std::uint64_t bytes,
                          std::byte* scratch) {
    const auto segment = segment_before(file, offset);
    if (segment != file.segments.end() && segment->file_offset <= offset &&
        offset + bytes <= segment->file_offset + segment->bytes) {
        if (segment->arrival)
            segment->arrival->wait();
        return segment->memory + (offset - segment->file_offset);
    }
    copy_range(file, offset, bytes, scratch);
    return scratch;
}

void copy_range(const PlannedFile& file, std::uint64_t offset, std::uint64_t bytes, std::byte* to,
                CopyFor use) {
    const std::uint64_t end = offset + bytes;
    const auto copy = [&](const std::byte* memory, std::uint64_t first, std::uint64_t length) {
        const std::uint64_t begin = std::max(first, offset), stop = std::min(first + length, end);
        if (begin >= stop)
            return;
        const auto copy_bytes = use == CopyFor::later ? &stream_bytes : &plain_copy;
        copy_bytes(to + (begin - offset), memory + (begin - first), stop - begin);
    };
    copy(reinterpret_cast<const std::byte*>(file.header.data()), 0, file.header.size());
    auto segment = segment_before(file, offset);  // it may reach into the range
    for (; segment != file.segments.end() && segment->file_offset < end; ++segment) {
        if (segment->arrival)
            segment->arrival->wait();
        copy(segment->memory, segment->file_offset, segment->bytes);
    }
}

std::vector<BlockDigests> write_files(Storage& storage, const std::filesystem::path& directory,
                                      std::span<const PlannedFile> files, ChunkSource& source,
                                      const WriteProgress& progress, BlockHashes hashes) {
    const auto chunks = chunks_of(files);
    std::vector<BlockDigests> written;
    std::uint64_t bytes_written = 0;
    std::size_t next = 0;
    for (std::size_t i = 0; i < files.size(); ++i) {
        FileUnderWay file(storage, directory, files[i], source, hashes);
        const auto finish_one = [&] {
            bytes_written += file.finish_one();
            if (progress)
                progress(bytes_written);
        };
        for (; next < chunks.size() && chunks[next].file_index == i; ++next) {
            if (file.is_full())
                finish_one();
            std::byte* memory = source.take(next);
            while (!memory) {
                finish_one();
                memory = source.take(next);
            }
            file.write(chunks[next], memory);
        }
        while (!file.is_idle())
            finish_one();
        written.push_back(file.finish());
    }
    storage.sync_directory(directory);
    return written;
}

std::unique_ptr<StateSource> source_of(const WritePlan& plan) {
    return std::make_unique<PlanSource>(plan);
}

std::vector<BlockDigests> write_files(Storage& storage, const std::filesystem::path& directory,
                                      const WritePlan& plan) {
    return write_files(storage, directory, plan.files, *source_of(plan));
}

}  // namespace autolaunch
