#include "stage_cache/tree_check.hpp"

#include "stage_cache/beneath.hpp"
#include "stage_cache/shared_place.hpp"
#include "stage_cache/tree_copy.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace autolaunch::launcher {

namespace {

constexpr mode_t kPermissions = 07777;

mode_t kind_of(const TreeEntry& entry) {
    switch (entry.kind) {
        case TreeEntry::Kind::folder:
            return S_IFDIR;
        case TreeEntry::Kind::file:
            return S_IFREG;
        case TreeEntry::Kind::link:
            return S_IFLNK;
    }
    return 0;
}

std::string why_not(int folder, const TreeEntry& entry, const Mark& mark,
                    std::optional<uid_t> owner) {
    struct stat facts {};
    if (::fstatat(folder, entry.path.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0)
        return entry.path + ": " + std::strerror(errno);
    if ((facts.st_mode & S_IFMT) != kind_of(entry))
        return entry.path + " is of another kind";
    if (facts.st_ino != mark.inode || nanoseconds_of(facts.st_mtim) != mark.mtime_ns)
        return entry.path + " was changed or replaced";
    if (entry.kind == TreeEntry::Kind::file &&
        (facts.st_size != entry.bytes || (facts.st_mode & kPermissions) != entry.mode))
        return entry.path + " has another size or mode";
    if (owner && entry.kind == TreeEntry::Kind::link && facts.st_uid != *owner)
        return entry.path + " belongs to another user";  // a link has no mode of its own
    if (owner && entry.kind != TreeEntry::Kind::link)
        if (const std::string why = why_not_believed(facts, *owner); !why.empty())
            return entry.path + ' ' + why;
    return {};
}

}  // namespace

std::string why_not_as_marked(int folder, const Tree& tree, const std::vector<Mark>& marks,
                              std::optional<uid_t> owner) {
    if (marks.size() != tree.entries.size() + 1)
        return "its marks are of another tree";
    struct stat root {};
    if (::fstat(folder, &root) != 0)
        return std::strerror(errno);
    if (root.st_ino != marks[0].inode || nanoseconds_of(root.st_mtim) != marks[0].mtime_ns)
        return "something was put there, or removed";
    for (std::size_t at = 0; at < tree.entries.size(); ++at)
        if (std::string why = why_not(folder, tree.entries[at], marks[at + 1], owner); !why.empty())
            return why;
    return {};
}

std::string why_damaged(int folder, const Tree& tree) {
    for (const TreeEntry& entry : tree.entries) {
        if (entry.kind != TreeEntry::Kind::file)
            continue;
        const UniqueFd file = open_beneath(folder, entry.path, O_RDONLY);
        if (!file)
            return entry.path + ": " + std::strerror(errno);
        try {
            if (!(digest_of_file(file.get(), entry.path) == entry.digest))
                return entry.path + " has another content";
        } catch (const Error& error) {
            return error.what();
        }
    }
    return {};
}

}  // namespace autolaunch::launcher
