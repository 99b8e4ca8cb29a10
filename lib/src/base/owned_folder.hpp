#pragma once
#include "base/unique_fd.hpp"

#include <autolaunch/export.hpp>

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch {

/// For files that whoever workspace() lets in may read (base/workspace.hpp), as far as it does.
inline constexpr mode_t kFileMode = 0640;

/// A folder in which nobody but its owner, us, can make us write elsewhere. Whoever writes files
/// into a run directory does it through one of these.
///
/// A name in a place that all may write to (/tmp, a shared scratch) may have been prepared by
/// another user of the machine: as a folder of his, a link to a file of ours, a second name of it,
/// a FIFO. So the folder is opened once and looked at, and everything in it is made and opened by
/// that descriptor: links are not followed, what is new is made with O_EXCL, what is there already
/// must be a regular file or folder of ours.
///
/// Ours means: owned by this user, or by whom the file system says owns what this user makes there
/// (network mounts that map all users to one). The folders that lead to it are followed as they
/// are: they are what the user named. A link at its own place must be this user's or root's.
///
/// All throw SystemError where the system refuses, and Error with the remedy where what is there
/// cannot be trusted. Threads: const functions may be called from any.
class AUTOLAUNCH_API OwnedFolder {
public:
    /// The folder must be there. What is made in it is as workspace() says, but for what is made
    /// for ourselves alone (0600).
    static OwnedFolder open(const std::filesystem::path& path);
    /// The same; it and those above it are made where they are missing.
    static OwnedFolder make(const std::filesystem::path& path);

    const std::filesystem::path& path() const { return path_; }
    int fd() const { return fd_.get(); }
    /// Whether folder() or make() made it just now, so that nothing is in it.
    bool is_new() const { return is_new_; }

    /// A folder in it, made if it is missing.
    OwnedFolder folder(const std::string& name) const;
    /// The same for ourselves alone (0700): one that is there and lets others in is refused.
    OwnedFolder private_folder(const std::string& name) const;
    /// A file in it, to write at its end; made if it is missing.
    UniqueFd append(const std::string& name, mode_t mode = kFileMode) const;
    /// A file that nobody else has made: EEXIST where the name is taken.
    UniqueFd create(const std::string& name, mode_t mode = kFileMode) const;
    /// Readers see the old content or the new, never a part: written beside it, renamed. After a
    /// failure nothing of it is left.
    void replace(const std::string& name, std::string_view bytes, mode_t mode = kFileMode) const;
    /// The content of a file in it; nothing where there is none. Throws Error{corrupt} for more
    /// than `most` bytes.
    std::optional<std::string> read(const std::string& name, std::size_t most) const;
    /// A file or a link. It need not be there.
    void remove(const std::string& name) const;

private:
    OwnedFolder(UniqueFd fd, std::filesystem::path path, bool is_new = false);
    OwnedFolder folder_with(const std::string& name, mode_t mode) const;
    void check_owner() const;
    bool is_ours(uid_t owner) const;
    bool others_may_write() const;
    void check_file(int fd, const std::string& name) const;

    UniqueFd fd_;
    std::filesystem::path path_;
    bool is_new_ = false;
};

/// Refuses a link in this place that neither this user nor root has made.
AUTOLAUNCH_API void refuse_strangers_link(const std::filesystem::path& path);

/// Refuses a folder that is another user's, or is in one of his, and was made where everybody may
/// make one, as in /tmp: he could exchange what is written into it. Not root's, and not one that
/// its owner shares with a group of ours.
AUTOLAUNCH_API void refuse_strangers_folder(const std::filesystem::path& path);

/// Whether nobody else can exchange what we make in this folder: it is ours or root's, and whoever
/// else may write there may not rename or remove what is not his. False where it cannot be looked
/// at.
AUTOLAUNCH_API bool keeps_our_names(const std::filesystem::path& folder) noexcept;

}  // namespace autolaunch
