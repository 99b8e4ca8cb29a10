#include "base/locked_folder.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

namespace autolaunch {

namespace {

UniqueFd folder_at(const std::filesystem::path& path) {
    return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool is_at(int folder, const std::filesystem::path& path) {
    struct stat held {};
    struct stat found {};
    return ::fstat(folder, &held) == 0 && ::lstat(path.c_str(), &found) == 0 &&
           held.st_dev == found.st_dev && held.st_ino == found.st_ino;
}

bool is_ours(int folder) {
    struct stat facts {};
    return ::fstat(folder, &facts) == 0 && facts.st_uid == ::geteuid();
}

}  // namespace

LockedFolder::LockedFolder(const std::filesystem::path& path) {
    do {
        if (::mkdir(path.c_str(), 0700) != 0)
            throw SystemError(errno, "create the folder " + path.string());
    } while (!take(path));
}

LockedFolder LockedFolder::make_unique(const std::string& prefix) {
    LockedFolder folder;
    std::string name;
    do {
        name = prefix + "XXXXXX";
        if (::mkdtemp(name.data()) == nullptr)  // 0700
            throw SystemError(errno, "create a folder " + name);
    } while (!folder.take(name));
    return folder;
}

LockedFolder::LockedFolder(LockedFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

LockedFolder& LockedFolder::operator=(LockedFolder&& other) noexcept {
    if (this == &other)
        return *this;
    remove();
    path_ = std::exchange(other.path_, {});
    lock_ = std::move(other.lock_);
    return *this;
}

LockedFolder::~LockedFolder() { remove(); }

// False when somebody who removes what is abandoned came between making and locking it. A file
// system without locks goes without: nobody else can lock it either, and so remove it.
bool LockedFolder::take(const std::filesystem::path& made) {
    lock_ = folder_at(made);
    if (!lock_) {
        const int error = errno;
        if (error == ENOENT || error == ENOTDIR || error == ELOOP)
            return false;
        ::rmdir(made.c_str());
        throw SystemError(error, "open the folder " + made.string(),
                          error == EACCES ? "the umask has to let its owner in" : "");
    }
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return false;
    if (!is_ours(lock_.get()) || !is_at(lock_.get(), made))
        return false;
    path_ = made;
    return true;
}

bool LockedFolder::is_there() const { return lock_ && is_at(lock_.get(), path_); }

// What somebody else has put in its place is not ours to remove.
void LockedFolder::remove() noexcept {
    if (!is_there())
        return;
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

}  // namespace autolaunch
