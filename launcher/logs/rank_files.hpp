#pragma once
#include "base/owned_folder.hpp"
#include "base/unique_fd.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace autolaunch::launcher {

/// The files that are a rank's stdout and stderr in one generation
/// (docs/adr/0005-logs-are-files.md).
struct RankFiles {
    std::filesystem::path directory;  ///< RUN_DIR/generation-G/rank-R
    std::filesystem::path stdout_path, stderr_path;
    std::filesystem::path error_file_path;  ///< for TORCHELASTIC_ERROR_FILE; not created here
    UniqueFd out, err;                      ///< O_APPEND; close them once the rank has them
    std::int64_t stdout_start = 0, stderr_start = 0;  ///< where this generation's bytes begin
};

/// RUN_DIR/generation-G/rank-R.
std::filesystem::path rank_directory(const std::filesystem::path& run_dir, int generation,
                                     int rank);
/// RUN_DIR/generation-G, opened once for all its ranks. Made (0750) where it is missing. Throws
/// Error with a hint when that cannot be done, or when it is not the user's own
/// (base/owned_folder.hpp).
OwnedFolder open_generation_folder(const std::filesystem::path& run_dir, int generation);
/// Creates rank-R (0750) in it and both files (0640, before the umask), or goes on at the end of
/// existing ones, if they are the user's own; an error file of an earlier run is removed. Throws as
/// above.
RankFiles open_rank_files(const OwnedFolder& generation, int rank);

/// Gives back the room that was reserved for what a rank of this number would still print
/// (LogRoom), in the newest generation before this one in which it has files: an agent that is
/// killed, or whose machine loses its power, cannot. Its ranks have ended.
void give_back_room(const std::filesystem::path& run_dir, int generation, int rank) noexcept;

/// "DEVICE:INODE" of the file: how a process knows that its stdout is the log (AUTOLAUNCH_STDOUT).
std::string file_identity(const UniqueFd& file);

}  // namespace autolaunch::launcher
