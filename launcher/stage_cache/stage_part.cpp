#include "stage_cache/stage_part.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "stage_cache/beneath.hpp"
#include "stage_cache/stage_cache.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostBoot = 64, kRandom = 8;

std::string this_boot() {
    try {
        return read_file("/proc/sys/kernel/random/boot_id");
    } catch (const Error&) {
        return {};  // then nothing is gone on with
    }
}

std::string boot_of(int folder) {
    const UniqueFd file(::openat(folder, kBootFile, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    char text[kMostBoot];
    const ssize_t got = file ? ::read(file.get(), text, sizeof text) : 0;
    return {text, static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
}

std::int64_t bytes_below(const std::filesystem::path& folder, std::int64_t& files) {
    constexpr std::int64_t kBlock = 512;
    std::int64_t bytes = 0;
    std::error_code unreadable;
    for (const std::filesystem::path& path : list_folder(folder, unreadable)) {
        struct stat facts {};
        if (::lstat(path.c_str(), &facts) != 0)
            continue;
        if (S_ISDIR(facts.st_mode))
            bytes += bytes_below(path, files);
        else
            bytes += facts.st_blocks * kBlock;
        files += S_ISREG(facts.st_mode) ? 1 : 0;
    }
    return bytes;
}

}  // namespace

void write_part_file(const StagePart& part, const char* name, std::string_view text) {
    const std::string shown = (part.path() / name).string();
    if (::unlinkat(part.own_folder(), name, 0) != 0 && errno != ENOENT)
        throw SystemError(errno, "remove " + shown);
    const UniqueFd file(::openat(part.own_folder(), name,
                                 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file)
        throw SystemError(errno, "create " + shown);
    write_all(file.get(), text, shown);
}

std::optional<StagePart> StageCache::begin(const std::string& key) {
    auto part = open_part(key);
    if (part)  // what could not be gone on with takes no room of what comes
        remove_gone();
    return part;
}

std::optional<StagePart> StageCache::open_part(const std::string& key) {
    StagePart part;
    part.key_ = part.name_ = key;
    part.path_ = parts_.path() / key;
    const UniqueFd all = lock_all();
    if (::mkdirat(parts_.fd(), key.c_str(), 0700) != 0 && errno != EEXIST)
        throw SystemError(errno, "create the folder " + part.path_.string());
    part.lock_.reset(::openat(parts_.fd(), key.c_str(), kOpenFolder));
    if (!part.lock_)
        throw SystemError(errno, "open " + part.path_.string());
    if (::flock(part.lock_.get(), LOCK_EX | LOCK_NB) != 0)
        return std::nullopt;
    const std::string boot = this_boot();
    if (boot.empty() || boot_of(part.lock_.get()) != boot) {
        if (::renameat(part.lock_.get(), kTree, gone_.fd(), random_hex(kRandom).c_str()) != 0 &&
            errno != ENOENT)
            throw SystemError(errno, "remove " + (part.path_ / kTree).string());
        write_part_file(part, kBootFile, boot);
    }
    if (::mkdirat(part.lock_.get(), kTree, 0700) != 0 && errno != EEXIST)
        throw SystemError(errno, "create the folder " + (part.path_ / kTree).string());
    part.tree_.reset(::openat(part.lock_.get(), kTree, kOpenFolder));
    if (!part.tree_ || ::fchmod(part.tree_.get(), 0700) != 0)
        throw SystemError(errno, "open " + (part.path_ / kTree).string());
    return part;
}

std::int64_t StageCache::bytes_in(const StagePart& part) const {
    std::int64_t files = 0;
    return bytes_below(part.path(), files);
}

void StageCache::drop(StagePart part) {
    part.lock_.reset();
    part.tree_.reset();
    try {
        if (move_away(parts_, part.name_))  // else somebody else has begun it already
            remove_gone();
    } catch (const Error&) {
        // It is nobody's, and goes when room is needed; why it was to go is what is told.
    }
}

StageCache::Found StageCache::look_at_part(const std::string& name) const {
    Found found{.name = name};
    found.is_part = true;
    const UniqueFd folder(::openat(parts_.fd(), name.c_str(), kOpenFolder));
    struct stat facts {};
    if (!folder || ::fstat(folder.get(), &facts) != 0) {
        found.why_unreadable = SystemError(errno, "open " + (parts_.path() / name).string()).what();
        return found;
    }
    found.used_s = facts.st_mtim.tv_sec;
    found.is_held = ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0;
    found.bytes = bytes_below(parts_.path() / name, found.files);
    return found;
}

}  // namespace autolaunch::launcher
