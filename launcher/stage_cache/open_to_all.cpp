#include "stage_cache/open_to_all.hpp"

#include "exit_codes/exit_error.hpp"
#include "stage_cache/beneath.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace autolaunch::launcher {

namespace {

constexpr mode_t kAllRead = S_IRGRP | S_IROTH, kAllPass = S_IXGRP | S_IXOTH, kModeShown = 07777;

[[noreturn]] void not_for_all(const std::string& what) {
    throw ExitError(exit_code::kBadData, ErrorCode::invalid_argument, what,
                    "everybody reads what is in the shared cache: stage it for yourself, without "
                    "--shared, or let everybody read it where it lies");
}

std::string path_of_descriptor(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

struct stat facts_of_open(int fd, const std::string& shown) {
    struct stat facts {};
    if (::fstat(fd, &facts) != 0)
        throw ExitError(exit_code::kNoInput, ErrorCode::system,
                        SystemError(errno, "look at " + shown).what(), "it has to stay there");
    return facts;
}

/// Group and others both, for who is in the group is none of the others.
void require_mode(int fd, mode_t needed, const std::string& shown) {
    const struct stat facts = facts_of_open(fd, shown);
    if ((facts.st_mode & needed) != needed)
        not_for_all(fmt::format("{} is not for everybody to read (mode {:04o})", shown,
                                facts.st_mode & kModeShown));
    // A named user or group may be kept out by it. An O_PATH descriptor has no fgetxattr(2).
    if (::getxattr(path_of_descriptor(fd).c_str(), "system.posix_acl_access", nullptr, 0) > 0)
        not_for_all(shown + " has an access list (getfacl), which may keep somebody out");
}

UniqueFd open_to_look(int folder, const std::string& path, const std::string& shown) {
    UniqueFd opened = open_beneath(folder, path, O_PATH);
    if (!opened)
        throw ExitError(exit_code::kNoInput, ErrorCode::system,
                        SystemError(errno, "look at " + shown).what(), "it has to stay there");
    return opened;
}

/// By descriptors, from the folder that is read upwards: no name can be exchanged meanwhile.
void require_way(int folder, const std::string& shown) {
    std::string above = shown;
    UniqueFd at(::openat(folder, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    struct stat before = facts_of_open(folder, shown);
    for (;;) {
        if (!at)
            throw ExitError(exit_code::kNoInput, ErrorCode::system,
                            SystemError(errno, "look above " + above).what(),
                            "it has to stay there");
        above = above.substr(0, above.rfind('/'));
        const std::string name = above.empty() ? "/" : above;
        const struct stat now = facts_of_open(at.get(), name);
        if (now.st_dev == before.st_dev && now.st_ino == before.st_ino)
            return;  // the root is above itself
        require_mode(at.get(), kAllPass, name);
        before = now;
        at.reset(::openat(at.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
}

}  // namespace

void require_open_to_all(const SourceTree& source) {
    // A single file's folder need only be passed, as those above it.
    require_mode(source.folder.get(), source.tree.is_file ? kAllPass : kAllRead | kAllPass,
                 source.folder_path);
    require_way(source.folder.get(), source.folder_path);
    for (const TreeEntry& entry : source.tree.entries) {
        if (entry.kind == TreeEntry::Kind::link)
            continue;
        const std::string shown = source.path_of(entry);
        const UniqueFd opened = open_to_look(source.folder.get(),
                                             source.only.empty() ? entry.path : source.only, shown);
        require_mode(opened.get(),
                     entry.kind == TreeEntry::Kind::folder ? kAllRead | kAllPass : kAllRead, shown);
    }
}

}  // namespace autolaunch::launcher
