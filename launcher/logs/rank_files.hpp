#pragma once
#include "base/unique_fd.hpp"

#include <cstdint>
#include <filesystem>

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
/// Creates the directories (0750) and both files (0640, before the umask), or goes on at the end of
/// existing ones, if they are the user's own (base/owned_folder.hpp); an error file of an earlier
/// run is removed. Throws Error with a hint when that cannot be done.
RankFiles open_rank_files(const std::filesystem::path& run_dir, int generation, int rank);

}  // namespace autolaunch::launcher
