#include "stage_cache/beneath.hpp"

#include <autolaunch/error.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

namespace autolaunch::launcher {

namespace {

std::vector<std::string> names_in(int folder, const std::string& shown) {
    UniqueFd again(::openat(folder, ".", kOpenFolder));
    DIR* const opened = again ? ::fdopendir(again.get()) : nullptr;
    if (opened == nullptr)
        throw SystemError(errno, "list " + shown);
    again.release();  // closedir's
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(opened, ::closedir);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(entries.get())) {
        const std::string name = entry->d_name;
        if (name != "." && name != "..")
            names.push_back(name);
    }
    if (errno != 0)
        throw SystemError(errno, "list " + shown);
    return names;
}

}  // namespace

// Kernels before 5.6 have no openat2(2): there only the last name is looked at.
UniqueFd open_beneath(int folder, const std::string& path, int flags, unsigned mode) {
    open_how how{};
    how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC | O_NOFOLLOW);
    how.mode = (flags & O_CREAT) != 0 ? mode : 0;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    const long opened = ::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how);
    if (opened >= 0 || (errno != ENOSYS && errno != EPERM))
        return UniqueFd(static_cast<int>(opened));
    return UniqueFd(::openat(folder, path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, mode));
}

void empty_beneath(int folder, const std::string& shown) {
    ::fchmod(folder, 0700);  // where that fails, removing tells
    for (const std::string& inner : names_in(folder, shown)) {
        if (::unlinkat(folder, inner.c_str(), 0) == 0 || errno == ENOENT)
            continue;
        if (errno != EISDIR && errno != EPERM)
            throw SystemError(errno, "remove " + shown + "/" + inner);
        remove_beneath(folder, inner);
    }
}

void remove_beneath(int parent, const std::string& name) {
    const UniqueFd folder(::openat(parent, name.c_str(), kOpenFolder));
    if (!folder && errno == ENOENT)
        return;
    if (!folder && (errno == ENOTDIR || errno == ELOOP)) {
        if (::unlinkat(parent, name.c_str(), 0) != 0 && errno != ENOENT)
            throw SystemError(errno, "remove " + name);
        return;
    }
    if (!folder)
        throw SystemError(errno, "remove " + name);
    empty_beneath(folder.get(), name);
    if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
        throw SystemError(errno, "remove " + name);
}

}  // namespace autolaunch::launcher
