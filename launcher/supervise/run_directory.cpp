#include "supervise/run_directory.hpp"

#include "base/file_system.hpp"
#include "base/room_on_disk.hpp"
#include "base/text.hpp"
#include "base/workspace.hpp"

#include <autolaunch/error.hpp>

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kGenerationPrefix = "generation-";
constexpr mode_t kPrivateMode = 0600;                  // both files may hold keys
constexpr long long kMostGenerations = 1'000'000'000;  // no job comes near; sums stay in an int

/// The number of a folder's name as we write it: no sign, no leading zero. Others' folders, such as
/// generation-old, are none of ours.
std::optional<int> generation_of(const std::string& name) {
    if (!name.starts_with(kGenerationPrefix))
        return std::nullopt;
    const std::string digits = name.substr(kGenerationPrefix.size());
    long long number = 0;
    if (!parse_integer(digits, number) || number < 0 || digits != std::to_string(number))
        return std::nullopt;
    if (number > kMostGenerations)
        throw Error(
            ErrorCode::invalid_argument,
            "the run directory has a " + name + ", after which no generation can be numbered",
            "remove that folder, or name another run directory with --log-dir");
    return static_cast<int>(number);
}

int next_generation(const fs::path& run_dir) {
    int next = 0;
    for (const auto& entry : list_folder(run_dir)) {
        if (const auto number = generation_of(entry.filename().string()))
            next = std::max(next, *number + 1);
    }
    return next;
}

// Every node has it, and may make it at the same time.
OwnedFolder make_run_folder(const fs::path& path) try {
    refuse_open_parents(path, workspace());
    return OwnedFolder::make(path);
} catch (const SystemError& error) {
    const SystemError named(error.error_number(), "create the run directory " + path.string());
    throw RunDirectoryError(
        error.code(), named.what(),
        is_want_of_room(error.error_number())
            ? "make room there, or name another one with --log-dir"
            : "name another one with --log-dir, or start autolaunch where you may write");
} catch (const Error& error) {
    throw RunDirectoryError(error.code(), error.what(), error.hint() + " (--log-dir)");
}

// File systems without locks (some NFS mounts) go without.
void lock_folder(const OwnedFolder& folder) {
    if (::flock(folder.fd(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        throw SystemError(EBUSY, "use the run directory " + folder.path().string(),
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

// A file of it that cannot be written.
RunDirectoryError of_run_directory(const SystemError& error) {
    return {error.code(), error.what(),
            is_want_of_room(error.error_number())
                ? "make room there, or name another folder with --log-dir"
                : error.hint()};
}

}  // namespace

OwnedFolder lock_run_directory(const fs::path& path) try {
    OwnedFolder folder = OwnedFolder::open(path);
    lock_folder(folder);
    return folder;
} catch (const SystemError& error) {
    if (error.error_number() == EBUSY)
        throw RunDirectoryInUse(error.code(), error.what(), "ask its head");
    throw of_run_directory(error);
}

RunDirectory::RunDirectory(const LaunchPlan& plan)
    : path_(plan.run_dir),
      node_(plan.node_rank),
      suffix_(plan.node_rank == 0 ? "" : ".node-" + std::to_string(plan.node_rank)),
      role_(suffix_),
      folder_(make_run_folder(path_)) {
    try {
        prepare(plan);
    } catch (const SystemError& error) {
        if (error.error_number() == EBUSY)
            throw RunDirectoryInUse(error.code(), error.what(), error.hint());
        throw of_run_directory(error);
    } catch (const Error& error) {
        throw RunDirectoryError(error.code(), error.what(), error.hint());
    }
}

// The user made it as he wanted it, and it stays so; but the administrator's word is the last.
void RunDirectory::look_at_mode(const WorkspaceSpec& wanted) {
    struct stat facts {};
    if (folder_.is_new() || ::fstat(folder_.fd(), &facts) != 0)
        return;
    const mode_t mode = facts.st_mode & 0777;
    if (wanted.most && (mode & ~static_cast<mode_t>(*wanted.most)) != 0)
        throw RunDirectoryError(ErrorCode::invalid_argument,
                                "the run directory " + path_.string() + " has mode " +
                                    mode_text(mode) + ", and lets in more than " + wanted.most_by +
                                    " does",
                                "chmod " + mode_text(mode & *wanted.most) + " " + path_.string() +
                                    ", or name one that is not there yet with --log-dir");
    const mode_t usual = workspace().folder & 0777;
    if (node_ == 0 && (mode & (S_IRWXG | S_IRWXO) & ~usual) != 0)
        note_ = "the run directory " + path_.string() + " was there, and keeps its mode " +
                mode_text(mode) + "; one that is made has " + mode_text(usual);
}

void RunDirectory::prepare(const LaunchPlan& plan) {
    look_at_mode(plan.spec.workspace);
    if (plan.node_rank == 0) {
        lock_folder(folder_);
        first_generation_ = next_generation(path_);
        if (plan.spec.run_dir.empty() && !plan.spec.storage.is_all)  // no run of the trainer
            point_latest_at(path_);
    }
    // Whole or not at all: another node may write the same file, or a rank read it.
    keep_plan(plan);
    folder_.replace(trainer_config_path().filename(), plan.spec.trainer_config, kPrivateMode);
    folder_.append(events_path().filename());  // what is wrong with it shows here, as all of these
}

void RunDirectory::become_head() {
    role_.clear();
    first_generation_ = next_generation(path_);
}

void RunDirectory::keep_head(const std::string& text) const {
    try {
        folder_.replace(kHeadFile, text);
    } catch (const SystemError& error) {
        throw of_run_directory(error);
    }
}

void RunDirectory::keep_plan(const LaunchPlan& plan) const {
    folder_.replace("plan" + suffix_ + ".json", plan_json(plan), kPrivateMode);
}

}  // namespace autolaunch::launcher
