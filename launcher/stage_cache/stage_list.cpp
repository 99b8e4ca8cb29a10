#include "base/file_system.hpp"
#include "base/room_on_disk.hpp"
#include "exit_codes/exit_error.hpp"
#include "stage_cache/beneath.hpp"
#include "stage_cache/stage_cache.hpp"
#include "stage_cache/stage_text.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

void cannot_keep(const std::string& what, std::string hint) {
    throw ExitError(exit_code::kCannotCreate, ErrorCode::system, what, std::move(hint));
}

std::string read_text(int folder, const char* name, std::size_t most, int flags) {
    const UniqueFd file(::openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | flags));
    struct stat facts {};
    if (!file || ::fstat(file.get(), &facts) != 0)
        throw Error(ErrorCode::corrupt, std::string("it has no ") + name);
    std::string text(std::min(static_cast<std::size_t>(facts.st_size), most), '\0');
    std::size_t got = 0;
    while (got < text.size()) {
        const ssize_t some =
            ::pread(file.get(), text.data() + got, text.size() - got, static_cast<off_t>(got));
        if (some <= 0)
            throw Error(ErrorCode::corrupt, std::string("its ") + name + " cannot be read");
        got += static_cast<std::size_t>(some);
    }
    return text;
}

StageCache::Found StageCache::look_at_entry(const std::string& name) const {
    Found found{.name = name};
    const UniqueFd folder(::openat(data_.fd(), name.c_str(), kOpenFolder));
    struct stat facts {};
    if (!folder || ::fstat(folder.get(), &facts) != 0) {
        found.why_unreadable = SystemError(errno, "open " + (data_.path() / name).string()).what();
        return found;
    }
    found.used_s = facts.st_mtim.tv_sec;
    found.is_held = ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0;
    try {
        const ManifestHead head = parse_manifest_head(
            read_text(folder.get(), kManifest, kManifestHead, is_shared_ ? O_NOATIME : 0));
        found.bytes = head.bytes;
        found.files = head.files;
        // Who uses a site's tree cannot write there, but reads the manifest, which leaves a time
        // where the file system keeps them.
        struct stat read {};
        if (is_shared_ && ::fstatat(folder.get(), kManifest, &read, AT_SYMLINK_NOFOLLOW) == 0)
            found.used_s = std::max<std::int64_t>(found.used_s, read.st_atim.tv_sec);
    } catch (const Error& error) {
        found.why_unreadable = error.what();
    }
    return found;
}

std::vector<StageCache::Found> StageCache::list_kind(bool parts) const {
    std::vector<Found> all;
    for (const fs::path& path : list_folder(parts ? parts_.path() : data_.path()))
        all.push_back(parts ? look_at_part(path.filename()) : look_at_entry(path.filename()));
    return all;
}

// Under the lock, for whoever looks at a tree holds its lock for a moment.
std::vector<StageCache::Found> StageCache::list() {
    const UniqueFd all = lock_all();
    std::vector<Found> found = list_kind(false);
    std::error_code unreadable;
    for (const fs::path& path : list_folder(sources_.path(), unreadable))
        if (const auto source = source_of(path.filename()))
            for (Found& one : found)
                if (one.name == source->name) {
                    one.keep_s = std::max(one.keep_s, source->keep_s);
                    one.of.push_back(source->from);
                }
    for (Found& part : list_kind(true))
        found.push_back(std::move(part));
    return found;
}

void StageCache::make_room(std::int64_t bytes, const StagePart& for_part, std::int64_t there) {
    std::vector<Found> found = list();
    std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
        return std::pair(!a.is_part, a.used_s) < std::pair(!b.is_part, b.used_s);
    });
    std::int64_t all = there, held = 0;
    for (const Found& one : found)
        if (one.name != for_part.name_) {
            all += one.bytes;
            held += one.is_held ? one.bytes : 0;
        }
    const auto fits = [&] {
        return all + bytes <= most_bytes_ && room_left(folder_.fd()).bytes >= bytes;
    };
    for (const Found& one : found) {
        if (fits())
            return;
        if (one.is_held || one.name == for_part.name_ || !remove(one.name))
            continue;
        all -= one.bytes;
    }
    if (fits())
        return;
    cannot_keep(
        fmt::format(
            "storage.scratch: {} has no room for {:.1f} MB more: {:.1f} MB are free, and {:.1f} "
            "MB of at most {:.1f} MB are in use",
            path().string(), bytes / 1e6, room_left(folder_.fd()).bytes / 1e6, held / 1e6,
            most_bytes_ / 1e6),
        "make room there, set storage.limit, or name another folder in storage.scratch");
}

}  // namespace autolaunch::launcher
