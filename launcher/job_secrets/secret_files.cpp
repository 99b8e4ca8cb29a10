#include "job_secrets/secret_files.hpp"

#include "base/owned_folder.hpp"
#include "exit_codes/exit_error.hpp"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <cstdlib>
#include <vector>

namespace autolaunch::launcher {

namespace {

constexpr mode_t kOnlyOurs = 0600;

bool is_in_memory(const std::filesystem::path& folder) {
    struct statfs facts {};
    return ::statfs(folder.c_str(), &facts) == 0 &&
           (facts.f_type == TMPFS_MAGIC || facts.f_type == RAMFS_MAGIC);
}

}  // namespace

// /dev/shm alone: a user's own /run/user goes with his log-out, and a pod's /tmp is on a disk.
void SecretFiles::make_folder() {
    const std::filesystem::path parent = "/dev/shm";
    std::string why = "it is no file system in memory";
    try {
        if (is_in_memory(parent)) {
            folder_.emplace(parent / (sockets_.filename().string() + "-secrets"));
            return;
        }
    } catch (const Error& error) {
        why = error.what();
    }
    throw ExitError(exit_code::kSystem, ErrorCode::system,
                    "secrets cannot be given as files: " + parent.string() + ": " + why,
                    "mount a tmpfs there (mode 1777), or give them with as: environment");
}

std::string SecretFiles::write(const std::string& name, const std::string& bytes) {
    if (!folder_ || !folder_->is_there()) {
        folder_.reset();
        make_folder();
    }
    try {
        OwnedFolder::open(folder_->path()).replace(name, bytes, kOnlyOurs);
    } catch (const Error& error) {
        throw ExitError(exit_code::kSystem, ErrorCode::system,
                        "secrets." + name + ": it cannot be given as a file: " + error.what(),
                        error.hint());
    }
    return folder_->path() / name;
}

}  // namespace autolaunch::launcher
