#include "stage_cache/shared_cache.hpp"

#include "stage_cache/beneath.hpp"
#include "stage_cache/stage_part.hpp"
#include "stage_cache/stage_text.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <utility>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

/// A folder that nobody may list is opened for what is in it alone.
constexpr int kOpenToPass = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr int kOpenText = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

/// None where there is none; throws where it is not the owner's own, or cannot be opened.
UniqueFd open_believed(int folder, const fs::path& path, int flags, uid_t owner) {
    UniqueFd opened(::openat(folder, path.filename().c_str(), flags));
    if (!opened && errno == ENOENT)
        return opened;
    struct stat facts {};
    if (!opened || ::fstat(opened.get(), &facts) != 0)
        throw SystemError(errno, "open " + path.string());
    std::string why = why_not_believed(facts, owner);
    if (why.empty() && (flags & O_DIRECTORY) == 0 && !S_ISREG(facts.st_mode))
        why = "is not a regular file";
    if (!why.empty())
        throw Error(ErrorCode::mismatch, path.string() + ' ' + why);
    return opened;
}

void require_believed(int folder, const fs::path& path, int flags, uid_t owner) {
    if (!open_believed(folder, path, flags, owner))
        throw Error(ErrorCode::corrupt, path.string() + " is not there");
}

/// Why it is not used, for a line of the job's.
std::string note_of(const SharedPlace& place, const Error& error) {
    return "the site's shared cache " + place.folder.string() +
           " is not used for this: " + error.what();
}

}  // namespace

std::optional<HeldTree> SharedCache::hold_in(const SharedFolder& folder,
                                             const std::string& name) const {
    const fs::path data_path = folder.path / "data", path = data_path / name;
    const UniqueFd data = open_believed(folder.fd.get(), data_path, kOpenToPass, place_.owner);
    if (!data || !is_tree_name(name))
        return std::nullopt;
    UniqueFd lock = open_believed(data.get(), path, kOpenFolder, place_.owner);
    if (!lock)
        return std::nullopt;
    if (!take_tree(data.get(), name, lock.get()))
        throw Error(ErrorCode::timeout, path.string() +
                                            " is being removed, or somebody has locked it for "
                                            "himself (lslocks says who)");
    require_believed(lock.get(), path / kManifest, kOpenText, place_.owner);
    require_believed(lock.get(), path / kMarks, kOpenText, place_.owner);
    require_believed(lock.get(), path / kTree, kOpenFolder, place_.owner);
    HeldTree held = held_tree(std::move(lock), name, data_path);
    held.is_shared = true;
    return held;
}

std::optional<HeldTree> SharedCache::find_in(const std::string& key) const {
    const auto folder = open_shared(place_);
    if (!folder)
        return std::nullopt;
    const fs::path sources_path = folder->path / "sources";
    const UniqueFd sources =
        open_believed(folder->fd.get(), sources_path, kOpenToPass, place_.owner);
    if (!sources)
        return std::nullopt;
    if (!open_believed(sources.get(), sources_path / key, kOpenText, place_.owner))
        return std::nullopt;
    const auto source = parse_source_text(read_text(sources.get(), key.c_str(), kMostSource));
    if (!source)
        throw Error(ErrorCode::corrupt, (sources_path / key).string() + " makes no sense");
    auto held = hold_in(*folder, source->name);
    if (!held)
        return std::nullopt;
    if (const std::string why = why_unusable(*held, place_.owner); !why.empty())
        throw Error(ErrorCode::corrupt, (folder->path / "data" / source->name).string() +
                                            " is not as it was staged: " + why);
    return held;
}

std::optional<HeldTree> SharedCache::find(const std::string& key, std::string& note) const {
    try {
        return find_in(key);
    } catch (const Error& error) {
        note = note_of(place_, error);
        return std::nullopt;
    }
}

std::optional<HeldTree> SharedCache::hold(const std::string& name, std::string& note) const {
    try {
        const auto folder = open_shared(place_);
        return folder ? hold_in(*folder, name) : std::nullopt;
    } catch (const Error& error) {
        note = note_of(place_, error);
        return std::nullopt;
    }
}

}  // namespace autolaunch::launcher
