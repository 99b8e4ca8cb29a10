#include "stage_cache/stage_cache.hpp"

#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "base/network_file_system.hpp"
#include "exit_codes/exit_error.hpp"
#include "stage_cache/beneath.hpp"
#include "stage_cache/stage_part.hpp"
#include "stage_cache/stage_text.hpp"
#include "stage_cache/tree_check.hpp"
#include "stage_cache/tree_copy.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLock = "lock";
/// Of a site's cache: all may look at a tree, and pass through what nobody is to list.
constexpr mode_t kSharedFolder = 0755, kPassedFolder = 0711, kSharedText = 0444;
constexpr int kMostSame = 100;  // of one address, where others are damaged and held

constexpr const char* kOtherScratch = "name a folder on the node's own disk in storage.scratch";

OwnedFolder open_scratch(const fs::path& scratch) {
    try {
        OwnedFolder folder = OwnedFolder::make(scratch).private_folder("stage");
        if (is_network_file_system(folder.path()))
            cannot_keep("storage.scratch: " + folder.path().string() +
                            " is itself on a file system of a network",
                        kOtherScratch);
        return folder;
    } catch (const ExitError&) {
        throw;
    } catch (const Error& error) {
        cannot_keep(std::string("storage.scratch: ") + error.what(),
                    error.hint().empty() ? kOtherScratch : error.hint());
    }
}

std::int64_t half_of_disk(int fd) {
    struct statvfs disk {};
    if (::fstatvfs(fd, &disk) != 0)
        return 0;
    return static_cast<std::int64_t>(disk.f_blocks * disk.f_frsize / 2);
}

[[noreturn]] void cannot_share(const Error& error) {
    cannot_keep(
        std::string("storage_management.shared_cache: ") + error.what(),
        error.hint().empty() ? "see that it is its owner's alone to write to" : error.hint());
}

/// By its owner, who makes it where its parent lets him.
OwnedFolder open_own_shared(const SharedPlace& place) {
    if (::geteuid() != place.owner)
        throw ExitError(exit_code::kNotPermitted, ErrorCode::mismatch,
                        fmt::format("storage_management.shared_cache: only user {} may write to "
                                    "{}, and this is user {}",
                                    place.owner, place.folder.string(), ::geteuid()),
                        "jobs use what is there by themselves");
    try {
        const auto path = shared_path(place);
        if (!path)
            throw SystemError(ENOENT, "create the folder " + place.folder.string());
        check_way(path->parent_path(), place.owner);
        if (::mkdir(path->c_str(), kSharedFolder) != 0 && errno != EEXIST)
            throw SystemError(errno, "create the folder " + place.folder.string(),
                              "root makes it: install -d -m 755 -o OWNER " + place.folder.string());
        const auto found = open_shared(place);
        if (!found)
            throw SystemError(ENOENT, "open " + place.folder.string());
        OwnedFolder folder = OwnedFolder::open(found->path);
        if (::fchmod(folder.fd(), kSharedFolder) != 0)
            throw SystemError(errno, "set the mode of " + place.folder.string());
        return folder;
    } catch (const Error& error) {
        cannot_share(error);
    }
}

}  // namespace

fs::path stage_folder(const fs::path& scratch) {
    return scratch / fmt::format("autolaunch-{}", ::geteuid());
}

void refuse_open_scratch(const fs::path& scratch, const Workspace& workspace) {
    try {
        refuse_open_parents(stage_folder(scratch), workspace);
    } catch (const Error& error) {
        cannot_keep(std::string("storage.scratch: ") + error.what(), error.hint());
    }
}

StageCache::StageCache(const fs::path& scratch, std::int64_t most_bytes)
    : StageCache(open_scratch(stage_folder(scratch)), false, most_bytes) {}

StageCache::StageCache(const SharedPlace& place, std::int64_t most_bytes)
    : StageCache(open_own_shared(place), true, most_bytes) {}

StageCache::StageCache(OwnedFolder folder, bool is_shared, std::int64_t most_bytes)
    : is_shared_(is_shared),
      folder_(std::move(folder)),
      data_(inner_folder("data")),
      parts_(folder_.private_folder("parts")),
      sources_(inner_folder("sources")),
      gone_(folder_.private_folder("gone")),
      copies_(folder_.private_folder("copies")),
      most_bytes_(most_bytes > 0 ? most_bytes : half_of_disk(folder_.fd())) {
    remove_gone();
    remove_abandoned_copies();
}

OwnedFolder StageCache::inner_folder(const char* name) const {
    if (!is_shared_)
        return folder_.private_folder(name);
    const fs::path path = folder_.path() / name;
    try {
        if (::mkdirat(folder_.fd(), name, 0700) != 0 && errno != EEXIST)
            throw SystemError(errno, "create the folder " + path.string());
        OwnedFolder folder = folder_.folder(name);
        struct stat facts {};
        if (::fstat(folder.fd(), &facts) != 0)
            throw SystemError(errno, "look at " + path.string());
        if (const std::string why = why_not_believed(facts, ::geteuid()); !why.empty())
            throw Error(ErrorCode::mismatch, path.string() + ' ' + why);
        if (::fchmod(folder.fd(), kPassedFolder) != 0)
            throw SystemError(errno, "set the mode of " + path.string());
        return folder;
    } catch (const Error& error) {
        cannot_share(error);
    }
}

// Held for moments only: whoever removes or reads much does it without.
UniqueFd StageCache::lock_all() {
    UniqueFd lock(::openat(folder_.fd(), kLock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!lock)
        throw SystemError(errno, "open " + (path() / kLock).string());
    const Deadline deadline = Deadline::after(kLockTime);
    while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            throw SystemError(errno, "lock " + (path() / kLock).string());
        if (deadline.passed())
            cannot_keep("another process has locked " + (path() / kLock).string() + " for " +
                            std::to_string(kLockTime.count()) + " s",
                        "see who it is with fuser or lslocks");
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return lock;
}

std::optional<StagedSource> StageCache::source_of(const std::string& key) const {
    try {
        const auto text = sources_.read(key, kMostSource);
        return text ? parse_source_text(*text) : std::nullopt;
    } catch (const Error&) {  // a link, a pipe, what is too large: no word of ours
        return std::nullopt;
    }
}

HeldTree StageCache::as_held(UniqueFd lock, const std::string& name) const {
    HeldTree held = held_tree(std::move(lock), name, data_.path());
    held.is_shared = is_shared_;
    return held;
}

std::optional<HeldTree> StageCache::hold(const std::string& name) {
    if (!is_tree_name(name))
        return std::nullopt;
    UniqueFd lock(::openat(data_.fd(), name.c_str(), kOpenFolder));
    if (!lock || !take_tree(data_.fd(), name, lock.get()))
        return std::nullopt;
    return as_held(std::move(lock), name);
}

Tree StageCache::tree_of(const HeldTree& held) { return manifest_of(held); }

Tree StageCache::listed_tree_of(const HeldTree& held) {
    Tree tree = tree_of(held);
    const UniqueFd folder(::openat(held.lock.get(), kTree, kOpenFolder));
    for (TreeEntry& entry : tree.entries) {
        struct stat facts {};
        if (!folder ||
            ::fstatat(folder.get(), entry.path.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0)
            throw SystemError(errno, "look at " + (held.path / entry.path).string());
        entry.mtime_ns = nanoseconds_of(facts.st_mtim);
    }
    return tree;
}

std::string StageCache::why_damaged(const HeldTree& held) const {
    if (std::string why = why_unusable(held); !why.empty())
        return why;
    const UniqueFd tree(::openat(held.lock.get(), kTree, kOpenFolder));
    return launcher::why_damaged(tree.get(), tree_of(held));
}

std::optional<HeldTree> StageCache::find(const std::string& key, std::string& note) {
    const auto source = source_of(key);
    if (!source)
        return std::nullopt;
    const std::string& name = source->name;
    std::optional<HeldTree> held;
    std::string why;
    try {
        held = hold(name);
        if (!held)
            return std::nullopt;
        why = why_unusable(*held, is_shared_ ? std::optional(::geteuid()) : std::nullopt);
    } catch (const Error& error) {
        why = error.what();
    }
    if (why.empty()) {
        mark_used(*held);  // the order in which room is made
        return held;
    }
    note =
        (data_.path() / name).string() + " is not as it was staged: " + why + "; it is staged anew";
    held.reset();
    sources_.remove(key);
    remove(name);
    return std::nullopt;
}

bool StageCache::move_away(const OwnedFolder& from, const std::string& name) {
    const UniqueFd all = lock_all();
    const UniqueFd folder(::openat(from.fd(), name.c_str(), kOpenFolder));
    if (!folder)
        return errno == ENOENT;
    if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0)
        return false;
    if (::renameat(from.fd(), name.c_str(), gone_.fd(), (name + '-' + random_hex(4)).c_str()) != 0)
        throw SystemError(errno, "remove " + (from.path() / name).string());
    return true;
}

bool StageCache::remove(const std::string& name) {
    const bool is_whole = ::faccessat(data_.fd(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if (!move_away(is_whole ? data_ : parts_, name))
        return false;
    remove_gone();
    forget_sources();
    return true;
}

// Several processes may do so at once: who comes second finds less.
void StageCache::remove_gone() {
    std::error_code unreadable;
    for (const fs::path& left : list_folder(gone_.path(), unreadable))
        remove_beneath(gone_.fd(), left.filename());
}

LockedFolder StageCache::make_folder_for_copies() const {
    return LockedFolder::make_unique((copies_.path() / "of-").string());
}

void StageCache::remove_abandoned_copies() {
    std::error_code unreadable;
    for (const fs::path& left : list_folder(copies_.path(), unreadable)) {
        const UniqueFd folder(::openat(copies_.fd(), left.filename().c_str(), kOpenFolder));
        if (folder && ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0)
            remove_beneath(copies_.fd(), left.filename());
    }
}

void StageCache::forget_sources() {
    std::error_code unreadable;
    for (const fs::path& source : list_folder(sources_.path(), unreadable)) {
        const auto its = source_of(source.filename());
        if (!its || ::faccessat(data_.fd(), its->name.c_str(), F_OK, 0) != 0)
            sources_.remove(source.filename());
    }
}

void StageCache::remember(const std::string& key, const HeldTree& held, const Wish& wish) {
    const std::string text =
        source_text({.name = held.name, .from = wish.from, .keep_s = wish.keep_s});
    if (sources_.read(key, kMostSource) == text)
        return;
    if (!is_shared_)
        return sources_.replace(key, text, 0600);
    // For all to read from the moment on that it has its name.
    const std::string temporary = key + '.' + random_hex(4);
    sources_.replace(temporary, text, 0600);
    if (::fchmodat(sources_.fd(), temporary.c_str(), kSharedText, 0) != 0 ||
        ::renameat(sources_.fd(), temporary.c_str(), sources_.fd(), key.c_str()) != 0)
        throw SystemError(errno, "write " + (sources_.path() / key).string());
}

std::string StageCache::free_name(const std::string& address) const {
    for (int number = 0; number < kMostSame; ++number) {
        std::string name = number == 0 ? address : fmt::format("{}.{}", address, number);
        if (::faccessat(data_.fd(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0)
            return name;
    }
    cannot_keep(fmt::format("{} holds {} damaged copies of one tree, all of them in use",
                            data_.path().string(), kMostSame),
                "end the jobs that use them");
}

void StageCache::let_all_read(const StagePart& part, Tree& tree) const {
    constexpr unsigned kAllRead = 0444, kAllExecute = 0111, kOwnerExecutes = 0100;
    for (TreeEntry& entry : tree.entries) {
        const unsigned mode =
            entry.mode | kAllRead | ((entry.mode & kOwnerExecutes) != 0 ? kAllExecute : 0);
        if (!is_shared_ || entry.kind != TreeEntry::Kind::file || mode == entry.mode)
            continue;
        if (::fchmodat(part.folder(), entry.path.c_str(), mode, 0) != 0)
            throw SystemError(errno, "set the mode of " + entry.path);
        entry.mode = mode;
    }
}

HeldTree StageCache::publish(StagePart& part, const Tree& tree) {
    const std::string text = manifest_text(tree);
    const std::string address = address_of(text);
    if (auto same = hold(address); same && why_unusable(*same).empty()) {
        drop(std::move(part));
        return std::move(*same);
    }
    const std::string marks = marks_text(finish_tree(part.folder(), tree));
    write_part_file(part, kManifest, text);
    write_part_file(part, kMarks, marks);
    if (is_shared_ && (::fchmodat(part.own_folder(), kManifest, kSharedText, 0) != 0 ||
                       ::fchmodat(part.own_folder(), kMarks, kSharedText, 0) != 0 ||
                       ::fchmod(part.own_folder(), kSharedFolder) != 0))
        throw SystemError(errno, "set the mode of " + part.path().string());
    if (::syncfs(part.own_folder()) != 0)
        throw SystemError(errno, "write " + part.path().string());
    const UniqueFd all = lock_all();
    const std::string name = free_name(address);
    if (::renameat(parts_.fd(), part.name_.c_str(), data_.fd(), name.c_str()) != 0)
        throw SystemError(errno, "keep " + (data_.path() / name).string());
    if (::fsync(data_.fd()) != 0)
        throw SystemError(errno, "write " + data_.path().string());
    // Now: without them what is killed while all is synced, which may take minutes, would be lost.
    remove_beneath(part.own_folder(), kBootFile);
    remove_beneath(part.own_folder(), kPieces);
    ::flock(part.lock_.get(), LOCK_SH);  // ours alone until now, and still nobody's to remove
    return as_held(std::move(part.lock_), name);
}

}  // namespace autolaunch::launcher
