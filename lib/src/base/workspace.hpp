#pragma once
#include "base/unique_fd.hpp"

#include <autolaunch/export.hpp>

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch {

/// How folders and files are made that others may come to see: run directories and checkpoints.
/// What is there already keeps its mode.
struct Workspace {
    mode_t folder = 0750;  ///< files have the same without x
    /// As somebody asked for it: the umask takes nothing away. Else it does.
    bool exact = false;
    std::optional<gid_t> group = {};  ///< folders are its, with the setgid bit: so is all in them
    bool open_parents = false;        ///< below folders that everybody may write to, too

    mode_t file() const { return folder & 0666; }
    bool operator==(const Workspace&) const = default;
};

/// Of this process, as umask(2) is: what OwnedFolder and make_folders() go by. Until somebody sets
/// it, 0750 less the umask. Set it before there are threads.
AUTOLAUNCH_API const Workspace& workspace();
AUTOLAUNCH_API void set_workspace(const Workspace& workspace);

/// "mode=0750,group=2001,open-parents": how the launcher tells ranks (AUTOLAUNCH_WORKSPACE). Throws
/// Error{invalid_argument} for what is none of it.
AUTOLAUNCH_API std::string to_text(const Workspace& workspace);
AUTOLAUNCH_API Workspace workspace_from(std::string_view text);
/// What AUTOLAUNCH_WORKSPACE says; without it as workspace() is from the start.
AUTOLAUNCH_API Workspace workspace_of_environment();

/// "0750", "750", "0o2750": all for its owner, and no writing for the world.
AUTOLAUNCH_API std::optional<mode_t> folder_mode_from(std::string_view text);
/// "0750"
AUTOLAUNCH_API std::string mode_text(mode_t mode);

/// One folder, whose parent is there. False: it was there. Throws SystemError, and
/// Error{invalid_argument} where the group is none of ours.
AUTOLAUNCH_API bool make_one_folder(const std::filesystem::path& path, const Workspace& workspace);

/// Gives what we have just made the mode and the group that were asked for.
AUTOLAUNCH_API void finish_folder(int fd, const std::filesystem::path& path,
                                  const Workspace& workspace);
AUTOLAUNCH_API void finish_file(int fd, const std::filesystem::path& path, mode_t mode,
                                const Workspace& workspace);

/// Refuses a path that leads through a folder where everybody may rename or remove what is not his
/// own: one that the world may write to, without the sticky bit, and that it can reach. `path`
/// itself is not looked at, and need not be there. Nothing where Workspace::open_parents allows it.
AUTOLAUNCH_API void refuse_open_parents(const std::filesystem::path& path,
                                        const Workspace& workspace);

}  // namespace autolaunch
