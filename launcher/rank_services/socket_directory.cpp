#include "rank_services/socket_directory.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/owned_folder.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <system_error>
#include <vector>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kLongestParent = 64;  // leaves room for our names in the 107 bytes

std::vector<std::string> parents() {
    std::vector<std::string> found;
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    if (runtime != nullptr && runtime[0] == '/' && std::string(runtime).size() <= kLongestParent)
        found.emplace_back(runtime);
    found.emplace_back("/dev/shm");
    found.emplace_back("/tmp");
    return found;
}

std::string name_prefix() { return "autolaunch-" + std::to_string(::getuid()) + "-"; }

// Ours, and nobody holds its lock. A folder that is younger than a minute may be about to be
// locked.
bool is_abandoned(const std::filesystem::path& folder) {
    constexpr std::time_t kYoungSeconds = 60;
    const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat facts {};
    return fd && ::fstat(fd.get(), &facts) == 0 && facts.st_uid == ::getuid() &&
           facts.st_mtime + kYoungSeconds < std::time(nullptr) &&
           ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
}

void remove_abandoned(const std::filesystem::path& parent) {
    std::error_code ignored;
    for (const auto& folder : list_folder(parent, ignored))
        if (folder.filename().string().starts_with(name_prefix()) && is_abandoned(folder))
            std::filesystem::remove_all(folder, ignored);
}

}  // namespace

SocketDirectory::SocketDirectory() {
    int error = 0;
    for (const auto& parent : parents()) {
        if (!keeps_our_names(parent)) {  // after su, XDG_RUNTIME_DIR may be another user's
            error = EPERM;
            continue;
        }
        std::string name = parent + "/" + name_prefix() + "XXXXXX";
        if (::mkdtemp(name.data()) != nullptr) {  // 0700
            path_ = name;
            lock_ = open_file(path_, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
            ::flock(lock_.get(), LOCK_EX);
            remove_abandoned(parent);
            return;
        }
        error = errno;
    }
    throw SystemError(
        error, "create a folder for sockets in /tmp",
        "XDG_RUNTIME_DIR, /dev/shm or /tmp must be writable, and this user's, root's or "
        "sticky");
}

SocketDirectory::~SocketDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

}  // namespace autolaunch::launcher
