#pragma once
#include "base/unique_fd.hpp"

#include <autolaunch/export.hpp>

#include <filesystem>
#include <string>

namespace autolaunch {

/// A folder of this user alone (0700), removed with all it holds by the destructor. It is locked
/// (flock(2)) while this process lives, or any that it forked lives and keeps the descriptor: a
/// folder without a lock belongs to nobody, however young it is, and one with a lock to a live
/// owner, however old.
class AUTOLAUNCH_API LockedFolder {
public:
    /// Makes it. Throws SystemError; EEXIST where the path is taken, whoever took it.
    explicit LockedFolder(const std::filesystem::path& path);
    /// With six letters behind `prefix` that make the name unique.
    static LockedFolder make_unique(const std::string& prefix);
    LockedFolder(LockedFolder&& other) noexcept;
    LockedFolder& operator=(LockedFolder&& other) noexcept;
    ~LockedFolder();

    const std::filesystem::path& path() const { return path_; }
    /// Whoever holds it open holds the lock.
    int lock() const { return lock_.get(); }
    /// Nobody has removed or replaced it.
    bool is_there() const;

private:
    LockedFolder() = default;
    bool take(const std::filesystem::path& made);
    void remove() noexcept;

    std::filesystem::path path_;  ///< empty: moved away
    UniqueFd lock_;
};

}  // namespace autolaunch
