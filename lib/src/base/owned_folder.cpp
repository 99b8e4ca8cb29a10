#include "base/owned_folder.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "base/refuse.hpp"
#include "base/workspace.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>
#include <vector>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kFirstRead = std::size_t{64} << 10;
constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
constexpr int kTries = 3;  // of what another process may undo in between

// What is ours alone stays so.
mode_t file_mode(mode_t mode) {
    return (mode & (S_IRWXG | S_IRWXO)) == 0 ? mode : workspace().file();
}

struct stat look_at(int fd, const fs::path& path) {
    struct stat facts {};
    if (::fstat(fd, &facts) != 0)
        throw SystemError(errno, "look at " + path.string());
    return facts;
}

bool is_link(const fs::path& path, uid_t& owner) {
    struct stat facts {};
    if (::lstat(path.c_str(), &facts) != 0 || !S_ISLNK(facts.st_mode))
        return false;
    owner = facts.st_uid;
    return true;
}

bool is_group_of_ours(gid_t group) {
    if (group == ::getegid())
        return true;
    std::vector<gid_t> groups(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
    const int got = ::getgroups(static_cast<int>(groups.size()), groups.data());
    return got > 0 &&
           std::find(groups.begin(), groups.begin() + got, group) != groups.begin() + got;
}

// Whoever else may write there is of a group that its owner chose, and we are of it.
bool is_shared_with_us(const struct stat& folder) {
    return (folder.st_mode & S_IWGRP) != 0 && (folder.st_mode & S_IWOTH) == 0 &&
           is_group_of_ours(folder.st_gid);
}

[[noreturn]] void refuse_link(const fs::path& path) {
    refuse(path.string() + " is a symbolic link",
           "somebody else may have put it there: remove it, or name another folder");
}

// Without its last name where that is empty ("runs/4711/"): O_NOFOLLOW follows such a one.
fs::path without_slash(const fs::path& path) {
    return path.has_filename() || !path.has_relative_path() ? path : path.parent_path();
}

UniqueFd open_folder(const fs::path& path) {
    UniqueFd fd(::open(path.c_str(), kFolderFlags | O_NOFOLLOW));
    int error = errno;
    uid_t owner = 0;
    if (!fd && (error == ELOOP || error == ENOTDIR) && is_link(path, owner)) {
        refuse_strangers_link(path);
        fd.reset(::open(path.c_str(), kFolderFlags));
        error = errno;
    }
    if (!fd)
        throw SystemError(error, "open the folder " + path.string());
    return fd;
}

}  // namespace

OwnedFolder::OwnedFolder(UniqueFd fd, fs::path path, bool is_new)
    : fd_(std::move(fd)), path_(std::move(path)), is_new_(is_new) {
    check_owner();
}

OwnedFolder OwnedFolder::open(const fs::path& path) {
    return {open_folder(without_slash(path.empty() ? "." : path)), path};
}

OwnedFolder OwnedFolder::make(const fs::path& path) {
    const fs::path folder = without_slash(path);
    if (folder.has_parent_path())
        make_folders(folder.parent_path());
    std::error_code unknown;
    const bool is_new = !folder.empty() && !fs::is_directory(folder, unknown) &&
                        make_one_folder(folder, workspace());
    return {open_folder(folder.empty() ? "." : folder), path, is_new};
}

// Where the owner is another one, the file system may show all files as one user's: what we make
// there is then his, too.
bool OwnedFolder::is_ours(uid_t owner) const {
    if (owner == ::geteuid())
        return true;
    const std::string name = ".autolaunch-owner-" + random_hex(8);
    const UniqueFd probe(
        ::openat(fd_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0));
    if (!probe)
        return false;
    ::unlinkat(fd_.get(), name.c_str(), 0);
    struct stat facts {};
    return ::fstat(probe.get(), &facts) == 0 && facts.st_uid == owner;
}

// Root's folders are as good as ours: root needs no trick. So a container's mounted volume may be
// the run directory.
void OwnedFolder::check_owner() const {
    const struct stat facts = look_at(fd_.get(), path_);
    if (facts.st_uid != 0 && !is_ours(facts.st_uid))
        refuse("the folder " + path_.string() + " belongs to another user (uid " +
                   std::to_string(facts.st_uid) + "), who could replace what is written into it",
               "name another folder: one that is not there yet will be made for you");
    if ((facts.st_mode & S_IWOTH) != 0 && (facts.st_mode & S_ISVTX) == 0)
        refuse("everybody may write to the folder " + path_.string() +
                   ", and replace what is written into it",
               "chmod o-w " + path_.string() +
                   ", or name a folder in it that is not there yet: it will be made for you");
}

bool OwnedFolder::others_may_write() const {
    const struct stat facts = look_at(fd_.get(), path_);
    return facts.st_uid != ::geteuid() || (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

// A second name is no fault in a folder where nobody else could have given it: backups are made of
// such.
void OwnedFolder::check_file(int fd, const std::string& name) const {
    const fs::path path = path_ / name;
    const struct stat facts = look_at(fd, path);
    const std::string hint = "remove it, or name another folder";
    if (!S_ISREG(facts.st_mode))
        refuse(path.string() + " is not a regular file", hint);
    if (!is_ours(facts.st_uid))
        refuse(
            path.string() + " belongs to another user (uid " + std::to_string(facts.st_uid) + ")",
            hint);
    if (facts.st_nlink > 1 && others_may_write())
        refuse(path.string() + " has another name too: somebody may have linked a file of yours",
               hint);
}

OwnedFolder OwnedFolder::folder(const std::string& name) const {
    OwnedFolder made = folder_with(name, workspace().folder & 0777);
    if (made.is_new())
        finish_folder(made.fd(), made.path(), workspace());
    return made;
}

OwnedFolder OwnedFolder::private_folder(const std::string& name) const {
    OwnedFolder made = folder_with(name, 0700);
    const struct stat facts = look_at(made.fd(), made.path());
    if (!made.is_ours(facts.st_uid) || (facts.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        refuse(made.path().string() + " is not a folder of ours alone (mode 0700)",
               "remove it, or ask its owner to");
    return made;
}

OwnedFolder OwnedFolder::folder_with(const std::string& name, mode_t mode) const {
    const fs::path path = path_ / name;
    const bool is_new = ::mkdirat(fd_.get(), name.c_str(), mode) == 0;
    if (!is_new && errno != EEXIST)
        throw SystemError(errno, "create the folder " + path.string());
    UniqueFd fd(::openat(fd_.get(), name.c_str(), kFolderFlags | O_NOFOLLOW));
    const int error = errno;
    uid_t owner = 0;
    if (!fd && is_link(path, owner))
        refuse_link(path);
    if (!fd)
        throw SystemError(error, "open the folder " + path.string());
    return {std::move(fd), path, is_new};
}

UniqueFd OwnedFolder::create(const std::string& name, mode_t mode) const {
    const mode_t wanted = file_mode(mode);
    UniqueFd fd(::openat(fd_.get(), name.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_APPEND | O_CLOEXEC, wanted));
    if (!fd)
        throw SystemError(errno, "create " + (path_ / name).string());
    finish_file(fd.get(), path_ / name, wanted, workspace());
    return fd;
}

// As a rule it is not there yet. A FIFO must not hold us: without a reader it is ENXIO.
UniqueFd OwnedFolder::append(const std::string& name, mode_t mode) const {
    const fs::path path = path_ / name;
    for (int left = kTries;; --left) {
        const mode_t wanted = file_mode(mode);
        UniqueFd fd(::openat(fd_.get(), name.c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_APPEND | O_CLOEXEC,
                             wanted));
        if (fd) {
            finish_file(fd.get(), path, wanted, workspace());
            return fd;
        }
        if (errno != EEXIST)
            throw SystemError(errno, "create " + path.string());
        fd.reset(::openat(fd_.get(), name.c_str(),
                          O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (fd) {
            check_file(fd.get(), name);
            ::fcntl(fd.get(), F_SETFL, O_APPEND);  // what a rank gets must block
            return fd;
        }
        if (errno == ELOOP)
            refuse_link(path);
        if (errno == ENXIO)
            refuse(path.string() + " is not a regular file", "remove it, or name another folder");
        if (errno != ENOENT || left == 1)
            throw SystemError(errno, "open " + path.string() + " for writing");
    }
}

void OwnedFolder::replace(const std::string& name, std::string_view bytes, mode_t mode) const {
    const std::string temporary = name + "." + random_hex(8);
    try {
        UniqueFd fd = create(temporary, mode);
        write_all(fd.get(), bytes, (path_ / name).string());
        if (::close(fd.release()) != 0)  // where a network file system tells that it has no room
            throw SystemError(errno, "write " + (path_ / name).string());
        if (::renameat(fd_.get(), temporary.c_str(), fd_.get(), name.c_str()) != 0)
            throw SystemError(errno, "rename " + (path_ / temporary).string() + " to " + name);
    } catch (...) {
        ::unlinkat(fd_.get(), temporary.c_str(), 0);
        throw;
    }
}

std::optional<std::string> OwnedFolder::read(const std::string& name, std::size_t most) const {
    const fs::path path = path_ / name;
    const UniqueFd fd(
        ::openat(fd_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!fd && errno == ENOENT)
        return std::nullopt;
    if (!fd && errno == ELOOP)
        refuse_link(path);
    if (!fd)
        throw SystemError(errno, "open " + path.string());
    check_file(fd.get(), name);
    // Not all of `most` at once: that is a bound, and may be a gigabyte for a file of a line.
    std::string content;
    std::size_t filled = 0;
    while (filled <= most) {
        if (filled == content.size())
            content.resize(std::min(most + 1, std::max(kFirstRead, 2 * filled)));
        const ssize_t got = ::read(fd.get(), content.data() + filled, content.size() - filled);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            throw SystemError(errno, "read " + path.string());
        if (got == 0)
            break;
        filled += static_cast<std::size_t>(got);
    }
    if (filled > most)
        throw Error(ErrorCode::corrupt, path.string() + " is too long to be what it should be");
    content.resize(filled);
    return content;
}

void OwnedFolder::remove(const std::string& name) const {
    if (::unlinkat(fd_.get(), name.c_str(), 0) != 0 && errno != ENOENT)
        throw SystemError(errno, "remove " + (path_ / name).string());
}

void refuse_strangers_link(const fs::path& path) {
    uid_t owner = 0;
    if (is_link(path, owner) && owner != ::geteuid() && owner != 0)
        refuse_link(path);
}

void refuse_strangers_folder(const fs::path& path) {
    std::error_code error;
    for (fs::path folder = fs::canonical(path, error); !error && folder.has_relative_path();
         folder = folder.parent_path()) {
        struct stat facts {
        }, parent{};
        if (::stat(folder.c_str(), &facts) != 0 ||
            ::stat(folder.parent_path().c_str(), &parent) != 0)
            return;  // who cannot look at it cannot write there
        if (facts.st_uid == ::geteuid() || facts.st_uid == 0)
            return;
        if ((parent.st_mode & S_IWOTH) != 0 && !is_shared_with_us(facts))
            refuse("the folder " + folder.string() + " belongs to another user (uid " +
                       std::to_string(facts.st_uid) +
                       "), who could replace what is written into it",
                   "name a folder of your own, or one that its owner shares with a group of yours "
                   "(chmod g+w,o-w)");
    }
}

bool keeps_our_names(const fs::path& folder) noexcept {
    struct stat facts {};
    if (::stat(folder.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode))
        return false;
    const bool others_write = (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    return (facts.st_uid == ::geteuid() || facts.st_uid == 0) &&
           (!others_write || (facts.st_mode & S_ISVTX) != 0);
}

}  // namespace autolaunch
