#include "logs/rank_files.hpp"

#include "base/owned_folder.hpp"
#include "base/room_on_disk.hpp"

#include <autolaunch/error.hpp>

#include <sys/stat.h>

#include <cerrno>
#include <string>

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

const char* hint_for(const SystemError& error) {
    return is_want_of_room(error.error_number()) ? "make room there: df, df -i and quota tell"
                                                 : kHint;
}

UniqueFd open_log(const OwnedFolder& folder, const std::string& name) try {
    return folder.append(name);
} catch (const SystemError& error) {
    throw SystemError(error.error_number(), "open the log file " + (folder.path() / name).string(),
                      hint_for(error));
}

OwnedFolder open_rank_folder(const fs::path& path) try {
    const fs::path generation = path.parent_path();
    return OwnedFolder::make(generation.parent_path())
        .folder(generation.filename())
        .folder(path.filename());
} catch (const SystemError& error) {
    throw SystemError(error.error_number(), "create the log directory " + path.string(),
                      hint_for(error));
}

}  // namespace

fs::path rank_directory(const fs::path& run_dir, int generation, int rank) {
    return run_dir / ("generation-" + std::to_string(generation)) /
           ("rank-" + std::to_string(rank));
}

RankFiles open_rank_files(const fs::path& run_dir, int generation, int rank) {
    RankFiles files;
    files.directory = rank_directory(run_dir, generation, rank);
    const OwnedFolder folder = open_rank_folder(files.directory);
    files.stdout_path = files.directory / "stdout";
    files.stderr_path = files.directory / "stderr";
    files.error_file_path = files.directory / "error.json";
    // Of an earlier run: it must not explain this one's failure.
    folder.remove(files.error_file_path.filename());
    files.out = open_log(folder, files.stdout_path.filename());
    files.err = open_log(folder, files.stderr_path.filename());
    files.stdout_start = size_of(files.out, files.stdout_path);
    files.stderr_start = size_of(files.err, files.stderr_path);
    return files;
}

}  // namespace autolaunch::launcher
