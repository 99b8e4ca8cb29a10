#include "logs/rank_files.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr const char* kHint = "name a directory that can be written with --log-dir";

std::int64_t size_of(const UniqueFd& fd, const fs::path& path) {
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0)
        throw SystemError(errno, "stat " + path.string());
    return status.st_size;
}

UniqueFd open_log(const fs::path& path) {
    try {
        return open_file(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    } catch (const SystemError& error) {
        throw SystemError(error.error_number(), "open the log file " + path.string(), kHint);
    }
}

}  // namespace

fs::path rank_directory(const fs::path& run_dir, int generation, int rank) {
    return run_dir / ("generation-" + std::to_string(generation)) /
           ("rank-" + std::to_string(rank));
}

RankFiles open_rank_files(const fs::path& run_dir, int generation, int rank) {
    RankFiles files;
    files.directory = rank_directory(run_dir, generation, rank);
    std::error_code failed;
    fs::create_directories(files.directory, failed);
    if (failed)
        throw SystemError(failed.value(), "create the log directory " + files.directory.string(),
                          kHint);

    files.stdout_path = files.directory / "stdout";
    files.stderr_path = files.directory / "stderr";
    files.error_file_path = files.directory / "error.json";
    // Of an earlier run: it must not explain this one's failure.
    remove_path(files.error_file_path);
    files.out = open_log(files.stdout_path);
    files.err = open_log(files.stderr_path);
    files.stdout_start = size_of(files.out, files.stdout_path);
    files.stderr_start = size_of(files.err, files.stderr_path);
    return files;
}

}  // namespace autolaunch::launcher
