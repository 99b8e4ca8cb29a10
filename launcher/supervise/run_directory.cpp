#include "supervise/run_directory.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kGenerationPrefix = "generation-";

int next_generation(const fs::path& run_dir) {
    int next = 0;
    for (const auto& entry : list_folder(run_dir)) {
        const std::string name = entry.filename().string();
        long long number = 0;
        if (name.starts_with(kGenerationPrefix) &&
            parse_integer(name.substr(kGenerationPrefix.size()), number))
            next = std::max(next, static_cast<int>(number) + 1);
    }
    return next;
}

// Whole or not at all: another node may write the same file, or a rank read it. What an agent that
// was killed in here left is written over by the next one of its place.
void write_private_file(const fs::path& path, const std::string& text, int node_rank) {
    fs::path temporary = path;
    temporary += "." + std::to_string(node_rank) + ".tmp";
    {
        const UniqueFd fd = open_file(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        write_all(fd.get(), text, temporary.string());
    }
    rename_path(temporary, path);
}

// File systems without locks (some NFS mounts) go without.
void lock_folder(const UniqueFd& folder, const fs::path& path) {
    if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        throw SystemError(EBUSY, "use the run directory " + path.string(),
                          "another autolaunch is running in it; name another one with --log-dir");
}

// runs/latest -> 4711. A convenience: what is in its way stays, and nobody is told.
void point_latest_at(const fs::path& run_dir) {
    const fs::path link = run_dir.parent_path() / "latest";
    std::error_code ignored;
    const fs::file_type in_the_way = fs::symlink_status(link, ignored).type();
    if (in_the_way != fs::file_type::not_found && in_the_way != fs::file_type::symlink)
        return;
    fs::path temporary = link;
    temporary += "." + std::to_string(::getpid());
    fs::create_symlink(run_dir.filename(), temporary, ignored);
    if (!ignored)
        fs::rename(temporary, link, ignored);
}

}  // namespace

RunDirectory::RunDirectory(const LaunchPlan& plan)
    : path_(plan.run_dir),
      suffix_(plan.node_rank == 0 ? "" : ".node-" + std::to_string(plan.node_rank)) {
    try {
        prepare(plan);
    } catch (const Error& error) {
        throw RunDirectoryError(error.code(), error.what(), error.hint());
    }
}

void RunDirectory::prepare(const LaunchPlan& plan) {
    std::error_code error;
    fs::create_directories(path_, error);
    if (error)
        throw SystemError(
            error.value(), "create the run directory " + path_.string(),
            "name another one with --log-dir, or start autolaunch where you may write");
    if (plan.node_rank == 0) {
        lock_ = open_file(path_, O_RDONLY | O_DIRECTORY);
        lock_folder(lock_, path_);
        first_generation_ = next_generation(path_);
        if (plan.spec.run_dir.empty())
            point_latest_at(path_);
    }
    write_private_file(path_ / ("plan" + suffix_ + ".json"), plan_json(plan), plan.node_rank);
    write_private_file(trainer_config_path(), plan.spec.trainer_config, plan.node_rank);
}

}  // namespace autolaunch::launcher
