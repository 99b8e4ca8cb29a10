#include "stage_cache/tree_files.hpp"

#include "stage_cache/beneath.hpp"
#include "stage_cache/tree_copy.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace autolaunch::launcher {

namespace {

constexpr mode_t kWritable = 0600, kFolderWhileFilled = 0700, kModeBits = 07777;

}  // namespace

struct stat facts_of(int fd, const std::string& shown) {
    struct stat facts {};
    if (::fstat(fd, &facts) != 0)
        throw SystemError(errno, "look at " + shown);
    return facts;
}

void TreeFiles::make_folders_and_links(const Tree& tree) const {
    for (const TreeEntry& entry : tree.entries) {
        if (entry.kind == TreeEntry::Kind::folder &&
            ::mkdirat(into_, entry.path.c_str(), kFolderWhileFilled) != 0 && errno != EEXIST)
            throw SystemError(errno, "create the folder " + shown(entry));
        if (entry.kind == TreeEntry::Kind::folder)
            ::fchmodat(into_, entry.path.c_str(), kFolderWhileFilled, 0);
        if (entry.kind != TreeEntry::Kind::link)
            continue;
        if (::unlinkat(into_, entry.path.c_str(), 0) != 0 && errno != ENOENT)
            throw SystemError(errno, "remove " + shown(entry));
        if (::symlinkat(entry.target.c_str(), into_, entry.path.c_str()) != 0)
            throw SystemError(errno, "create the link " + shown(entry));
    }
}

bool TreeFiles::link(TreeEntry& entry, const FileHere& here) const {
    ::unlinkat(into_, entry.path.c_str(), 0);
    if (::linkat(AT_FDCWD, here.path.c_str(), into_, entry.path.c_str(), 0) != 0)
        return false;
    const UniqueFd file = open_beneath(into_, entry.path, O_RDONLY);
    if (!file)
        return false;
    dress(file.get(), entry);
    entry.digest = here.digest;
    return true;
}

bool TreeFiles::find_whole(TreeEntry& entry) const {
    const UniqueFd file = open_beneath(into_, entry.path, O_RDONLY);
    if (!file)
        return false;
    const struct stat facts = facts_of(file.get(), shown(entry));
    if (!S_ISREG(facts.st_mode) || facts.st_size != entry.bytes ||
        (facts.st_mode & kModeBits) != entry.mode ||
        nanoseconds_of(facts.st_mtim) != entry.mtime_ns)
        return false;
    entry.digest = digest_of_file(file.get(), shown(entry));
    return true;
}

void TreeFiles::make_empty(TreeEntry& entry) const {
    const UniqueFd to = make(entry);
    dress(to.get(), entry);
    entry.digest = ChunkedDigest().value();
}

UniqueFd TreeFiles::make(const TreeEntry& entry) const {
    if (::unlinkat(into_, entry.path.c_str(), 0) != 0 && errno != ENOENT)
        throw SystemError(errno, "remove " + shown(entry));
    UniqueFd to = open_beneath(into_, entry.path, O_RDWR | O_CREAT | O_EXCL, kWritable);
    if (!to)
        throw SystemError(errno, "create " + shown(entry));
    reserve(to.get(), entry);
    return to;
}

UniqueFd TreeFiles::open_begun(const TreeEntry& entry) const {
    UniqueFd file = open_beneath(into_, entry.path, O_RDWR);
    if (!file)
        return {};
    const struct stat facts = facts_of(file.get(), shown(entry));
    return S_ISREG(facts.st_mode) && facts.st_size <= entry.bytes && facts.st_nlink == 1
               ? std::move(file)
               : UniqueFd();
}

// All of it at once: a disk that is too full says so before it was filled.
void TreeFiles::reserve(int fd, const TreeEntry& entry) const {
    if (entry.bytes > static_cast<std::int64_t>(ChunkedDigest::kChunk) &&
        ::fallocate(fd, 0, 0, entry.bytes) != 0 && errno != EOPNOTSUPP && errno != ENOSYS)
        throw SystemError(errno, "write " + shown(entry));
}

void TreeFiles::write(int fd, const TreeEntry& entry, const char* bytes, std::size_t count,
                      std::int64_t at) const {
    while (count > 0) {
        const ssize_t some = ::pwrite(fd, bytes, count, at);
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0)
            throw SystemError(some == 0 ? ENOSPC : errno, "write " + shown(entry));
        bytes += some;
        at += some;
        count -= static_cast<std::size_t>(some);
    }
}

void TreeFiles::dress(int fd, const TreeEntry& entry) const {
    const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW}, timespec_of(entry.mtime_ns)};
    if (::futimens(fd, times) != 0 || ::fchmod(fd, entry.mode) != 0)
        throw SystemError(errno, "set the mode of " + shown(entry));
}

}  // namespace autolaunch::launcher
