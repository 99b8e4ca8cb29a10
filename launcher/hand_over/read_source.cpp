#include "base/hash.hpp"
#include "hand_over/transfer.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <string>
#include <thread>

namespace autolaunch::launcher {

namespace {

constexpr int kReaders = 8;  // a server answers each late, and several side by side

/// What is to be read next; taken by several threads.
class ReadingList {
public:
    explicit ReadingList(Transfer& transfer)
        : transfer_(transfer),
          files_(*transfer.files(Deadline::after(std::chrono::seconds(0)))),
          missing_(transfer.missing()) {}

    struct Piece {
        std::size_t file = 0, chunk = 0;
        std::shared_ptr<const UniqueFd> source;
    };
    std::optional<Piece> next() {
        const std::lock_guard lock(mutex_);
        for (; at_ < missing_.size(); ++at_, chunk_ = 0) {
            const std::size_t file = missing_[at_];
            if (chunk_ == 0 && !open(file))
                continue;
            if (chunk_ < chunks_of(files_[file]))
                return Piece{file, chunk_++, source_};
        }
        source_.reset();
        return std::nullopt;
    }

private:
    bool open(std::size_t file) {
        source_ = std::make_shared<const UniqueFd>(
            ::open(files_[file].path.c_str(), O_RDONLY | O_CLOEXEC));
        if (!*source_) {
            transfer_.give_up(file, SystemError(errno, "open a file").what());
            return false;
        }
        // As told: the kernel's own reading ahead asks for smaller parts.
        ::posix_fadvise(source_->get(), 0, 0, POSIX_FADV_RANDOM);
        return transfer_.make_place(file);
    }

    Transfer& transfer_;
    const std::vector<SharedFile>& files_;
    const std::vector<std::size_t> missing_;
    std::mutex mutex_;
    std::size_t at_ = 0, chunk_ = 0;
    std::shared_ptr<const UniqueFd> source_;
};

void read_piece(Transfer& transfer, const SharedFile& file, const ReadingList::Piece& piece,
                std::string& bytes) {
    bytes.resize(chunk_bytes(file, piece.chunk));
    const auto at = static_cast<off_t>(piece.chunk * kChunkBytes);
    const ssize_t got = ::pread(piece.source->get(), bytes.data(), bytes.size(), at);
    if (got < 0)
        return transfer.give_up(piece.file, SystemError(errno, "read a file").what());
    if (static_cast<std::size_t>(got) != bytes.size())
        return transfer.give_up(piece.file, "it changed while it was read");
    transfer.put(piece.file, piece.chunk, hash128(bytes.data(), bytes.size()), bytes,
                 [&] { return look_at(file.path) == file; });
}

}  // namespace

void read_source(Transfer& transfer) {
    ReadingList list(transfer);
    const auto& files = *transfer.files(Deadline::after(std::chrono::seconds(0)));
    const auto read = [&] {
        std::string bytes;
        while (const auto piece = list.next())
            read_piece(transfer, files[piece->file], *piece, bytes);
    };
    std::vector<std::jthread> readers;
    for (int i = 0; i < kReaders; ++i)
        readers.emplace_back(read);
}

}  // namespace autolaunch::launcher
