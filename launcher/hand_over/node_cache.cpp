#include "hand_over/node_cache.hpp"

#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "base/network_file_system.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <system_error>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFolder = "files";
constexpr std::string_view kPart = "part-";
constexpr std::size_t kDigits = 32;
constexpr std::time_t kAbandoned_s = 60, kUnused_s = 24 * 3600;
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr mode_t kOwnersRead = 0400, kReadAndExecute = 0555;

OwnedFolder open_folder(const fs::path& path, bool are_programs) {
    OwnedFolder folder = OwnedFolder::make(path).private_folder(kFolder);
    struct statvfs facts {};
    if (::fstatvfs(folder.fd(), &facts) != 0)
        throw SystemError(errno, "look at " + folder.path().string());
    const char* remedy = "name another folder in trainer.preload_cache";
    if (are_programs && (facts.f_flag & ST_NOEXEC) != 0)
        throw Error(
            ErrorCode::unsupported,
            folder.path().string() + " is mounted so that no program is run from it (noexec)",
            remedy);
    if (is_network_file_system(folder.path()))
        throw Error(ErrorCode::unsupported,
                    folder.path().string() + " is itself on a file system of a network", remedy);
    return folder;
}

timespec as_time(std::int64_t ns) { return {.tv_sec = ns / kSecond, .tv_nsec = ns % kSecond}; }

/// A file with holes takes less than its size.
std::int64_t taken_bytes(const struct stat& facts) {
    constexpr std::int64_t kBlock = 512;
    return std::min<std::int64_t>(facts.st_size, facts.st_blocks * kBlock);
}

bool is_copy_name(const std::string& name) {
    return name.size() == 2 * kDigits + 1 && name[kDigits] == '-';
}

/// Whoever writes a part holds its lock; one that was killed does not.
bool is_abandoned(int folder, const std::string& name) {
    const UniqueFd fd(::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    return fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
}

/// Digests of the chunks of an open file; empty where it cannot be read whole.
std::vector<Digest128> digests_of(int fd, const SharedFile& file) {
    std::vector<Digest128> digests;
    std::string bytes(kChunkBytes, '\0');
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    for (std::size_t chunk = 0; chunk < chunks_of(file); ++chunk) {
        const std::size_t wanted = chunk_bytes(file, chunk);
        const ssize_t got =
            ::pread(fd, bytes.data(), wanted, static_cast<off_t>(chunk * kChunkBytes));
        if (got != static_cast<ssize_t>(wanted))
            return {};
        digests.push_back(hash128(bytes.data(), wanted));
    }
    return digests;
}

}  // namespace

std::string copy_key(const SharedFile& file) {
    const std::string text =
        fmt::format("{}\n{}\n{:o}\n{}", file.bytes, file.mtime_ns, file.mode, file.path);
    return hex128(hash128(text.data(), text.size()));
}

NodeCache::NodeCache(const fs::path& folder, std::int64_t most_bytes, bool are_programs)
    : folder_(open_folder(folder, are_programs)), room_{most_bytes} {
    list();
}

void NodeCache::list() {
    const std::time_t now = std::time(nullptr);
    std::error_code error;
    for (const fs::path& path : list_folder(folder_.path(), error)) {
        struct stat facts {};
        const std::string name = path.filename();
        if (::fstatat(folder_.fd(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (name.starts_with(kPart) && facts.st_ctim.tv_sec + kAbandoned_s < now &&
            is_abandoned(folder_.fd(), name)) {
            folder_.remove(name);
            continue;
        }
        room_.bytes += taken_bytes(facts);
        if (is_copy_name(name))
            names_[name.substr(0, kDigits)] = name;
        else if (name == piece_index_name(name.substr(0, kDigits)))
            in_pieces_.push_back(name.substr(0, kDigits));
    }
    if (error)
        throw SystemError(error.value(), "list " + folder_.path().string());
}

std::optional<NodeCache::Copy> NodeCache::find(const SharedFile& file) {
    const auto found = names_.find(copy_key(file));
    if (found == names_.end())
        return std::nullopt;
    Copy copy{found->second, {}};
    const UniqueFd fd(::openat(folder_.fd(), copy.name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct stat facts {};
    if (fd && ::fstat(fd.get(), &facts) == 0 && S_ISREG(facts.st_mode) &&
        facts.st_uid == ::geteuid() && facts.st_size == file.bytes)
        copy.digests = digests_of(fd.get(), file);
    if (copy.digests.empty() || hex128(hash128_of(copy.digests)) != copy.name.substr(kDigits + 1)) {
        folder_.remove(copy.name);
        return std::nullopt;
    }
    const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW}, as_time(file.mtime_ns)};
    ::futimens(fd.get(), times);  // it was used today
    return copy;
}

void NodeCache::make_room(std::int64_t bytes) {
    struct Old {
        std::time_t used;
        std::vector<std::string> names;
    };
    std::vector<Old> old;
    const std::time_t now = std::time(nullptr);
    const auto consider = [&](const std::string& told_by, std::vector<std::string> names) {
        struct stat facts {};
        if (::fstatat(folder_.fd(), told_by.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
            facts.st_atim.tv_sec + kUnused_s < now)
            old.push_back({facts.st_atim.tv_sec, std::move(names)});
    };
    for (const auto& [key, name] : names_)
        consider(name, {name});
    for (const std::string& key : in_pieces_)
        consider(piece_index_name(key), {piece_index_name(key), piece_file_name(key)});
    std::sort(old.begin(), old.end(), [](const Old& a, const Old& b) { return a.used < b.used; });
    for (const Old& copy : old) {
        if (room_.bytes + bytes <= room_.most)
            return;
        for (const std::string& name : copy.names)
            remove(name);
    }
}

void NodeCache::remove(const std::string& name) {
    struct stat facts {};
    if (::fstatat(folder_.fd(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    folder_.remove(name);
    room_.bytes -= taken_bytes(facts);
    if (is_copy_name(name))
        names_.erase(name.substr(0, kDigits));
}

std::shared_ptr<PieceStore> NodeCache::open_pieces(const SharedFile& file) {
    return std::make_shared<PieceStore>(folder_.fd(), copy_key(file), file, room_);
}

NodeCache::Part NodeCache::start(const SharedFile& file) {
    if (room_.bytes + file.bytes > room_.most)
        throw SystemError(ENOSPC, fmt::format("keep more than {} GB in {}",
                                              room_.most / 1'000'000'000, path().string()));
    Part part;
    part.name = fmt::format("{}{}-{}", kPart, ::getpid(), parts_++);
    folder_.remove(part.name);
    part.fd.reset(::openat(folder_.fd(), part.name.c_str(),
                           O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!part.fd)
        throw SystemError(errno, "make a file in " + path().string());
    ::flock(part.fd.get(), LOCK_EX | LOCK_NB);
    if (const int error = ::posix_fallocate(part.fd.get(), 0, file.bytes); error != 0) {
        folder_.remove(part.name);
        throw SystemError(error, "write in " + path().string());
    }
    room_.bytes += file.bytes;
    return part;
}

std::string NodeCache::publish(const Part& part, const SharedFile& file,
                               const std::vector<Digest128>& digests) {
    const std::string name = copy_key(file) + '-' + hex128(hash128_of(digests));
    const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW}, as_time(file.mtime_ns)};
    const mode_t mode = (file.mode & kReadAndExecute) | kOwnersRead;  // nobody writes into a copy
    if (::fchmod(part.fd.get(), mode) != 0 || ::futimens(part.fd.get(), times) != 0 ||
        ::renameat(folder_.fd(), part.name.c_str(), folder_.fd(), name.c_str()) != 0)
        throw SystemError(errno, "keep a copy in " + path().string());
    return name;
}

NodeCache::Copy NodeCache::adopt(const SharedFile& file) {
    const std::string part = fmt::format("{}{}-{}", kPart, ::getpid(), parts_++);
    folder_.remove(part);
    if (::linkat(AT_FDCWD, file.path.c_str(), folder_.fd(), part.c_str(), 0) != 0)
        throw SystemError(errno, "link " + file.path);
    const UniqueFd fd(::openat(folder_.fd(), part.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    Copy copy{{}, fd ? digests_of(fd.get(), file) : std::vector<Digest128>()};
    if (copy.digests.empty())
        throw SystemError(errno, "read " + file.path);
    copy.name = copy_key(file) + '-' + hex128(hash128_of(copy.digests));
    if (::renameat(folder_.fd(), part.c_str(), folder_.fd(), copy.name.c_str()) != 0)
        throw SystemError(errno, "keep a copy in " + path().string());
    return copy;
}

void NodeCache::drop(const Part& part, const SharedFile& file) {
    folder_.remove(part.name);
    room_.bytes -= file.bytes;
}

}  // namespace autolaunch::launcher
