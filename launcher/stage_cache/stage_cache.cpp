#include "stage_cache/stage_cache.hpp"

#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "base/network_file_system.hpp"
#include "base/text.hpp"
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

constexpr const char* kMarks = "marks";
constexpr const char* kLock = "lock";
constexpr std::size_t kDigits = 32, kMostText = std::size_t{1} << 32;
constexpr auto kLook = std::chrono::seconds(2);
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

bool is_name(const std::string& name) {
    return name.size() >= kDigits && parse_hex128(name.substr(0, kDigits)).has_value() &&
           (name.size() == kDigits || name[kDigits] == '.');
}

/// The folder of that name is the one that is open: nobody has removed it since.
bool is_still_there(int folder, const std::string& name, int opened) {
    struct stat here {};
    struct stat there {};
    return ::fstat(opened, &here) == 0 &&
           ::fstatat(folder, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

}  // namespace

fs::path stage_folder(const fs::path& scratch) {
    return scratch / fmt::format("autolaunch-{}", ::geteuid());
}

StageCache::StageCache(const fs::path& scratch, std::int64_t most_bytes)
    : folder_(open_scratch(stage_folder(scratch))),
      data_(folder_.private_folder("data")),
      parts_(folder_.private_folder("parts")),
      sources_(folder_.private_folder("sources")),
      gone_(folder_.private_folder("gone")),
      copies_(folder_.private_folder("copies")),
      most_bytes_(most_bytes > 0 ? most_bytes : half_of_disk(folder_.fd())) {
    remove_gone();
    remove_abandoned_copies();
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

std::optional<StageCache::Source> StageCache::source_of(const std::string& key) const {
    const auto text = sources_.read(key, kMostSource);
    if (!text || text->empty() || text->back() != '\n')
        return std::nullopt;
    const auto lines = split(*text, '\n');
    long long keep = 0;
    if (lines.size() != 4 || !is_name(lines[0]) || !parse_integer(lines[1], keep) || keep < 0)
        return std::nullopt;
    try {
        return Source{lines[0], {.from = unescaped_word(lines[2]), .keep_s = keep}};
    } catch (const Error&) {
        return std::nullopt;
    }
}

HeldTree StageCache::as_held(UniqueFd lock, const std::string& name) const {
    HeldTree held;
    const ManifestHead head = parse_manifest_head(read_text(lock.get(), kManifest, kManifestHead));
    held.bytes = head.bytes;
    held.files = head.files;
    held.path = data_.path() / name / kTree;
    held.name = name;
    held.lock = std::move(lock);
    if (head.is_file)
        held.path /= tree_of(held).entries.at(0).path;
    return held;
}

std::optional<HeldTree> StageCache::hold(const std::string& name) {
    if (!is_name(name))
        return std::nullopt;
    UniqueFd lock(::openat(data_.fd(), name.c_str(), kOpenFolder));
    const Deadline deadline = Deadline::after(kLook);  // of whoever lists what is here
    while (lock && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0) {
        if (errno != EINTR && (errno != EWOULDBLOCK || deadline.passed()))
            return std::nullopt;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!lock || !is_still_there(data_.fd(), name, lock.get()))
        return std::nullopt;
    return as_held(std::move(lock), name);
}

Tree StageCache::tree_of(const HeldTree& held) const {
    const std::string text = read_text(held.lock.get(), kManifest, kMostText);
    if (address_of(text) != held.name.substr(0, kDigits))
        throw Error(ErrorCode::corrupt, "its manifest is another one's");
    return parse_manifest_text(text);
}

Tree StageCache::listed_tree_of(const HeldTree& held) const {
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

std::string StageCache::why_unusable(const HeldTree& held) const {
    try {
        const UniqueFd tree(::openat(held.lock.get(), kTree, kOpenFolder));
        if (!tree)
            return "it has no tree";
        return why_not_as_marked(tree.get(), tree_of(held),
                                 parse_marks_text(read_text(held.lock.get(), kMarks, kMostText)));
    } catch (const Error& error) {
        return error.what();
    }
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
        why = why_unusable(*held);
    } catch (const Error& error) {
        why = error.what();
    }
    if (why.empty()) {
        const timespec now[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW},
                                 {.tv_sec = 0, .tv_nsec = UTIME_NOW}};
        ::futimens(held->lock.get(), now);  // the order in which room is made
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
        fmt::format("{}\n{}\n{}\n", held.name, wish.keep_s, escaped_word(wish.from));
    if (sources_.read(key, kMostSource) != text)
        sources_.replace(key, text, 0600);
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
    remove_beneath(part.own_folder(), kBootFile);
    remove_beneath(part.own_folder(), kPieces);  // of an attempt that came otherwise
    if (::syncfs(part.own_folder()) != 0)
        throw SystemError(errno, "write " + part.path().string());
    const UniqueFd all = lock_all();
    const std::string name = free_name(address);
    if (::renameat(parts_.fd(), part.name_.c_str(), data_.fd(), name.c_str()) != 0)
        throw SystemError(errno, "keep " + (data_.path() / name).string());
    if (::fsync(data_.fd()) != 0)
        throw SystemError(errno, "write " + data_.path().string());
    ::flock(part.lock_.get(), LOCK_SH);  // ours alone until now, and still nobody's to remove
    return as_held(std::move(part.lock_), name);
}

}  // namespace autolaunch::launcher
