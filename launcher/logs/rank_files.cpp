#include "logs/rank_files.hpp"

#include "base/room_on_disk.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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

std::string generation_name(int generation) { return "generation-" + std::to_string(generation); }
std::string rank_name(int rank) { return "rank-" + std::to_string(rank); }

[[noreturn]] void refuse_log_folder(const SystemError& error, const fs::path& path) {
    throw SystemError(error.error_number(), "create the log directory " + path.string(),
                      hint_for(error));
}

OwnedFolder open_rank_folder(const OwnedFolder& generation, int rank) try {
    return generation.folder(rank_name(rank));
} catch (const SystemError& error) {
    refuse_log_folder(error, generation.path() / rank_name(rank));
}

constexpr std::int64_t kBlock = 512;          // st_blocks counts these
constexpr std::int64_t kNoReserve = 1 << 16;  // a file system may round up so far by itself

void give_back_room_of(const fs::path& file) {
    const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    struct stat facts {};
    if (!fd || ::fstat(fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode) ||
        facts.st_uid != ::geteuid() || facts.st_blocks * kBlock <= facts.st_size + kNoReserve)
        return;
    if (::ftruncate(fd.get(), facts.st_size) != 0)
        return;  // it stays reserved until the file is removed
}

}  // namespace

fs::path rank_directory(const fs::path& run_dir, int generation, int rank) {
    return run_dir / generation_name(generation) / rank_name(rank);
}

OwnedFolder open_generation_folder(const fs::path& run_dir, int generation) try {
    return OwnedFolder::make(run_dir).folder(generation_name(generation));
} catch (const SystemError& error) {
    refuse_log_folder(error, run_dir / generation_name(generation));
}

RankFiles open_rank_files(const OwnedFolder& generation, int rank) {
    RankFiles files;
    const OwnedFolder folder = open_rank_folder(generation, rank);
    files.directory = folder.path();
    files.stdout_path = files.directory / "stdout";
    files.stderr_path = files.directory / "stderr";
    files.error_file_path = files.directory / "error.json";
    // Of an earlier run: it must not explain this one's failure.
    if (!folder.is_new())
        folder.remove(files.error_file_path.filename());
    files.out = open_log(folder, files.stdout_path.filename());
    files.err = open_log(folder, files.stderr_path.filename());
    if (!folder.is_new()) {
        files.stdout_start = size_of(files.out, files.stdout_path);
        files.stderr_start = size_of(files.err, files.stderr_path);
    }
    return files;
}

void give_back_room(const fs::path& run_dir, int generation, int rank) noexcept {
    std::error_code error;
    for (int before = generation - 1; before >= 0; --before) {
        const fs::path folder = rank_directory(run_dir, before, rank);
        if (fs::symlink_status(folder, error).type() != fs::file_type::directory)
            continue;
        for (const char* name : {"stdout", "stderr"})
            give_back_room_of(folder / name);
        return;
    }
}

std::string file_identity(const UniqueFd& file) {
    struct stat status {};
    if (::fstat(file.get(), &status) != 0)
        return {};
    return std::to_string(status.st_dev) + ':' + std::to_string(status.st_ino);
}

}  // namespace autolaunch::launcher
