#include "hand_over/piece_file.hpp"

#include "base/hash.hpp"
#include "hand_over/positioned_io.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostWindow = kChunkBytes / kPieceBytes;

}  // namespace

int PieceFile::read(std::size_t piece, std::string& bytes) {
    if (piece >= chunks_of(file()))
        return EINVAL;
    if (store_->read(piece, bytes))
        return 0;
    const std::lock_guard lock(mutex_);
    return store_->read(piece, bytes) || ask_elsewhere(piece, bytes) ? 0 : fetch(piece, bytes);
}

// With the lock.
bool PieceFile::ask_elsewhere(std::size_t piece, std::string& bytes) {
    Transfer::Chunk chunk;
    if (!elsewhere_ || !elsewhere_(piece, chunk))
        return false;
    keep(piece, chunk.digest, chunk.bytes);
    bytes = std::move(chunk.bytes);
    return true;
}

// With the lock.
void PieceFile::keep(std::size_t piece, const Digest128& digest, std::string_view bytes) {
    try {
        if (keeps_)
            store_->put(piece, digest, bytes);
    } catch (const Error&) {
        keeps_ = false;  // a full disk: each is read anew
    }
}

int PieceFile::open_original() {
    if (!is_unchanged(file()))
        return ESTALE;
    if (!original_) {
        original_.reset(::open(file().path.c_str(), O_RDONLY | O_CLOEXEC));
        if (!original_)
            return errno;
        ::posix_fadvise(original_.get(), 0, 0, POSIX_FADV_RANDOM);
    }
    return 0;
}

// With the lock.
int PieceFile::fetch(std::size_t piece, std::string& bytes) {
    if (const int error = open_original(); error != 0)
        return error;
    window_ = piece == expected_ && piece > 0 ? std::min(2 * window_, kMostWindow) : 1;
    std::size_t count = 1;
    while (count < window_ && piece + count < chunks_of(file()) &&
           !store_->digest_of(piece + count))
        ++count;
    expected_ = piece + count;
    const std::size_t last = piece + count - 1;
    const std::int64_t at = chunk_offset(file(), piece);
    std::string all(
        static_cast<std::size_t>(chunk_offset(file(), last) - at) + chunk_bytes(file(), last),
        '\0');
    if (!read_at(original_.get(), all, at))
        return errno == 0 ? ESTALE : errno;
    fetched_ += static_cast<std::int64_t>(all.size());
    bytes = all.substr(0, chunk_bytes(file(), piece));
    // What changed meanwhile is kept under no digest.
    if (!is_unchanged(file()))
        return ESTALE;
    for (std::size_t chunk = piece; chunk <= last; ++chunk) {
        const auto part = std::string_view(all).substr(
            static_cast<std::size_t>(chunk_offset(file(), chunk) - at), chunk_bytes(file(), chunk));
        keep(chunk, hash128(part.data(), part.size()), part);
    }
    return 0;
}

}  // namespace autolaunch::launcher
