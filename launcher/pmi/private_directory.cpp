#include "pmi/private_directory.hpp"

#include <autolaunch/error.hpp>

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

PrivateDirectory::PrivateDirectory(std::filesystem::path path) : path_(std::move(path)) {
    if (::mkdir(path_.c_str(), 0700) != 0)
        throw SystemError(errno, "create the folder " + path_.string());
}

PrivateDirectory::~PrivateDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

bool PrivateDirectory::in_memory() const {
    struct statfs system {};
    return ::statfs(path_.c_str(), &system) == 0 && system.f_type == TMPFS_MAGIC;
}

}  // namespace autolaunch::launcher
