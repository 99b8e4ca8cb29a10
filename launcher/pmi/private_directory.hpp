#pragma once
#include <filesystem>

namespace autolaunch::launcher {

/// A folder that only its user may enter, made anew, and removed with all it holds by the
/// destructor.
class PrivateDirectory {
public:
    /// Throws SystemError.
    explicit PrivateDirectory(std::filesystem::path path);
    PrivateDirectory(const PrivateDirectory&) = delete;
    PrivateDirectory& operator=(const PrivateDirectory&) = delete;
    ~PrivateDirectory();

    const std::filesystem::path& path() const { return path_; }
    /// On a file system that never writes to a disk.
    bool in_memory() const;

private:
    std::filesystem::path path_;
};

}  // namespace autolaunch::launcher
