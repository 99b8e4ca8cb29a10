#include "base/hash.hpp"
#include "checkpoint/shard_file.hpp"

#include <algorithm>
#include <cstring>

namespace autolaunch {

namespace {

constexpr std::size_t kBufferBytes = 2 * Manifest::kBlockBytes;  // 8 MiB a write

// Collects bytes into large writes and digests every block while it is in cache.
class BlockWriter {
public:
    explicit BlockWriter(StorageFile& file) : file_(file), buffer_(kBufferBytes) {}

    void append(const std::byte* data, std::uint64_t bytes) {
        while (bytes > 0) {
            const std::size_t part = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kBufferBytes - filled_));
            std::memcpy(buffer_.data() + filled_, data, part);
            filled_ += part;
            data += part;
            bytes -= part;
            if (filled_ == kBufferBytes) flush();
        }
    }

    void flush() {
        for (std::size_t at = 0; at < filled_; at += Manifest::kBlockBytes)
            digests_.push_back(
                hash128(buffer_.data() + at, std::min<std::size_t>(filled_ - at, Manifest::kBlockBytes)));
        if (filled_ > 0) file_.write_at(written_, std::span(buffer_).first(filled_));
        written_ += filled_;
        filled_ = 0;
    }

    std::vector<Digest128> take_digests() { return std::move(digests_); }

private:
    StorageFile& file_;
    std::vector<std::byte> buffer_;
    std::size_t filled_ = 0;
    std::uint64_t written_ = 0;
    std::vector<Digest128> digests_;
};

}  // namespace

std::vector<std::vector<Digest128>> write_files(Storage& storage, const std::filesystem::path& directory,
                                                const WritePlan& plan) {
    std::vector<std::vector<Digest128>> digests;
    for (const PlannedFile& planned : plan.files) {
        const auto file = storage.create(directory / planned.name);
        BlockWriter writer(*file);
        writer.append(reinterpret_cast<const std::byte*>(planned.header.data()), planned.header.size());
        for (const Segment& segment : planned.segments) writer.append(segment.memory, segment.bytes);
        writer.flush();
        file->sync();
        digests.push_back(writer.take_digests());
    }
    storage.sync_directory(directory);
    return digests;
}

}  // namespace autolaunch
