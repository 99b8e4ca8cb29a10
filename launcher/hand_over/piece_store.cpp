#include "hand_over/piece_store.hpp"

#include "base/hash.hpp"
#include "hand_over/link_message.hpp"
#include "hand_over/positioned_io.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace autolaunch::launcher {

namespace {

// An entry of the index: u32 piece, digest (two u64, the high half first), u32 check: the lower
// half of XXH3-64 over what is before it. Little-endian.
constexpr std::size_t kEntryBytes = 24, kCheckedBytes = 20;
constexpr std::size_t kMostIndexBytes = 256U << 20;
constexpr mode_t kOwnersOnly = 0600;

using Entry = std::array<char, kEntryBytes>;

std::uint32_t check_of(const char* entry) {
    return static_cast<std::uint32_t>(hash64(entry, kCheckedBytes));
}

Entry entry_of(std::size_t piece, const Digest128& digest) {
    Entry entry;
    put_u32(entry.data(), static_cast<std::uint32_t>(piece));
    put_u64(entry.data() + 4, digest.high);
    put_u64(entry.data() + 12, digest.low);
    put_u32(entry.data() + kCheckedBytes, check_of(entry.data()));
    return entry;
}

UniqueFd open_ours(int folder, const std::string& name, int flags) {
    UniqueFd fd(
        ::openat(folder, name.c_str(), flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kOwnersOnly));
    struct stat facts {};
    if (!fd || ::fstat(fd.get(), &facts) != 0)
        throw SystemError(errno, "make a file in the folder of copies");
    if (!S_ISREG(facts.st_mode) || facts.st_uid != ::geteuid())
        throw SystemError(EPERM, "use what is in the folder of copies");
    return fd;
}

std::int64_t size_of(const UniqueFd& fd) {
    struct stat facts {};
    return ::fstat(fd.get(), &facts) == 0 ? facts.st_size : -1;
}

}  // namespace

std::string piece_file_name(const std::string& key) { return key + ".pieces"; }
std::string piece_index_name(const std::string& key) { return key + ".index"; }

PieceStore::PieceStore(int folder, const std::string& key, const SharedFile& file, CacheRoom& room)
    : file_(file), room_(room) {
    bytes_ = open_ours(folder, piece_file_name(key), O_RDWR);
    index_ = open_ours(folder, piece_index_name(key), O_RDWR | O_APPEND);
    if (size_of(index_) % static_cast<std::int64_t>(kEntryBytes) != 0) {
        // Its end was lost with the machine: entries behind it could not be told from each other.
        ::unlinkat(folder, piece_index_name(key).c_str(), 0);
        index_ = open_ours(folder, piece_index_name(key), O_RDWR | O_APPEND);
    }
    if (size_of(bytes_) != file.bytes && ::ftruncate(bytes_.get(), file.bytes) != 0)
        throw SystemError(errno, "make a file in the folder of copies");
    const timespec used_now[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW},
                                  {.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
    ::futimens(index_.get(), used_now);
    read_index();
}

void PieceStore::read_index() {
    const std::int64_t bytes = size_of(index_);
    if (bytes < 0 || bytes > static_cast<std::int64_t>(kMostIndexBytes))
        return;
    std::string text(static_cast<std::size_t>(bytes), '\0');
    if (!read_at(index_.get(), text, 0))
        return;
    for (std::size_t at = 0; at + kEntryBytes <= text.size(); at += kEntryBytes) {
        const char* entry = text.data() + at;
        const std::size_t piece = get_u32(entry);
        if (get_u32(entry + kCheckedBytes) == check_of(entry) && piece < chunks_of(file_))
            digests_[piece] = {get_u64(entry + 4), get_u64(entry + 12)};
    }
}

std::optional<Digest128> PieceStore::digest_of(std::size_t piece) const {
    const std::lock_guard lock(mutex_);
    const auto found = digests_.find(piece);
    return found == digests_.end() ? std::nullopt : std::optional(found->second);
}

bool PieceStore::read(std::size_t piece, std::string& bytes) {
    const auto digest = digest_of(piece);
    if (!digest)
        return false;
    bytes.resize(chunk_bytes(file_, piece));
    if (read_at(bytes_.get(), bytes, chunk_offset(file_, piece)) &&
        hash128(bytes.data(), bytes.size()) == *digest)
        return true;
    const std::lock_guard lock(mutex_);
    digests_.erase(piece);
    return false;
}

void PieceStore::put(std::size_t piece, const Digest128& digest, std::string_view bytes) {
    const auto count = static_cast<std::int64_t>(bytes.size());
    if (room_.bytes + count > room_.most)
        throw SystemError(ENOSPC, fmt::format("keep more than {} GB", room_.most / 1'000'000'000));
    room_.bytes += count;
    // The piece before its digest: a digest without its piece only says that it is not here.
    const Entry entry = entry_of(piece, digest);
    if (!write_at(bytes_.get(), bytes, chunk_offset(file_, piece)) ||
        ::write(index_.get(), entry.data(), entry.size()) != static_cast<ssize_t>(entry.size()))
        throw SystemError(errno, "write in the folder of copies");
    const std::lock_guard lock(mutex_);
    digests_[piece] = digest;
}

}  // namespace autolaunch::launcher
