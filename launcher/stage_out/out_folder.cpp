#include "stage_out/out_folder.hpp"

#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "base/network_file_system.hpp"
#include "base/workspace.hpp"
#include "exit_codes/exit_error.hpp"
#include "stage_cache/beneath.hpp"
#include "stage_cache/stage_cache.hpp"
#include "stage_out/out_journal.hpp"

#include <autolaunch/error.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <memory>
#include <thread>
#include <utility>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr const char* kOrder = "order";
constexpr const char* kEnd = "end";
constexpr const char* kData = "data";
constexpr const char* kCopied = "copied";
constexpr const char* kOtherScratch = "name a folder on the node's own disk in storage.scratch";
constexpr std::size_t kMostOrder = 1 << 20;
constexpr int kMostOfOneName = 1000;
constexpr auto kLooked = std::chrono::milliseconds(500);

/// As a file's name: what is no letter, digit, '.', '_' or '-' is '_', and then a digest tells two
/// apart.
std::string as_file_name(const std::string& text) {
    constexpr std::size_t kLongest = 100, kDigits = 8;
    std::string name = text.substr(0, kLongest);
    for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_' && c != '-')
            c = '_';
    if (name.empty() || name[0] == '.')
        name.insert(0, 1, '_');
    if (name != text)
        name += '-' + hex128(hash128(text.data(), text.size())).substr(0, kDigits);
    return name;
}

OwnedFolder open_root(const fs::path& scratch) {
    refuse_open_scratch(scratch, workspace());
    try {
        OwnedFolder folder = OwnedFolder::make(stage_folder(scratch)).private_folder("out");
        if (is_network_file_system(folder.path()))
            throw ExitError(exit_code::kCannotCreate, ErrorCode::invalid_argument,
                            "storage.scratch: " + folder.path().string() +
                                " is itself on a file system of a network",
                            kOtherScratch);
        return folder;
    } catch (const ExitError&) {
        throw;
    } catch (const Error& error) {
        throw ExitError(exit_code::kCannotCreate, error.code(),
                        std::string("storage.scratch: ") + error.what(),
                        error.hint().empty() ? kOtherScratch : error.hint());
    }
}

/// Locked, and still the folder of that name; none where somebody has it, or it is gone.
UniqueFd lock_folder(const fs::path& path, int how) {
    UniqueFd lock(::open(path.c_str(), kOpenFolder));
    struct stat here {};
    struct stat there {};
    if (!lock || ::flock(lock.get(), how | LOCK_NB) != 0 || ::fstat(lock.get(), &here) != 0 ||
        ::lstat(path.c_str(), &there) != 0 || here.st_ino != there.st_ino ||
        here.st_dev != there.st_dev)
        return {};
    return lock;
}

/// What an earlier start of a job has left may be locked for a moment, by who only looks at it.
UniqueFd lock_left(const OwnedFolder& folder, const OutOrder& order) {
    const Deadline deadline = Deadline::after(kLooked);
    for (;;) {
        UniqueFd lock = lock_folder(folder.path(), LOCK_EX);
        const auto text = lock ? std::nullopt : folder.read(kOrder, kMostOrder);
        if (lock || !text || parse_out_order(*text).run_dir != order.run_dir || deadline.passed())
            return lock;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

OutFile::Kind kind_of(mode_t mode) {
    return S_ISDIR(mode)   ? OutFile::Kind::folder
           : S_ISREG(mode) ? OutFile::Kind::file
           : S_ISLNK(mode) ? OutFile::Kind::link
                           : OutFile::Kind::other;
}

std::string target_of(int folder, const std::string& name, std::int64_t bytes) {
    std::string target(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0)) + 1, '\0');
    const ssize_t got = ::readlinkat(folder, name.c_str(), target.data(), target.size());
    target.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return target;
}

std::string why_closed(int error) { return std::generic_category().message(error); }

/// What cannot be listed is said: it is not absent. False, and errno: this folder.
bool walk_below(int folder, const std::string& below, std::vector<OutFile>& found) {
    UniqueFd again(::openat(folder, ".", kOpenFolder));
    DIR* const opened = again ? ::fdopendir(again.get()) : nullptr;
    if (opened == nullptr)
        return false;
    again.release();  // closedir's
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(opened, ::closedir);
    while (const dirent* entry = (errno = 0, ::readdir(entries.get()))) {
        const std::string name = entry->d_name;
        if (name == "." || name == "..")
            continue;
        struct stat facts {};
        const std::string path = below.empty() ? name : below + '/' + name;
        if (::fstatat(folder, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) {
            found.push_back(
                {.path = path, .kind = OutFile::Kind::closed, .target = why_closed(errno)});
            continue;
        }
        OutFile file{.path = path,
                     .kind = kind_of(facts.st_mode),
                     .mode = facts.st_mode & 0777U,
                     .bytes = S_ISREG(facts.st_mode) ? facts.st_size : 0,
                     .mtime_ns = nanoseconds_of(facts.st_mtim)};
        if (file.kind == OutFile::Kind::link)
            file.target = target_of(folder, name, facts.st_size);
        const std::size_t its = found.size();
        found.push_back(file);
        if (file.kind != OutFile::Kind::folder)
            continue;
        const UniqueFd inner(::openat(folder, name.c_str(), kOpenFolder));
        if (inner && walk_below(inner.get(), path, found))
            continue;
        found[its].kind = OutFile::Kind::closed;
        found[its].target = why_closed(errno);
    }
    return errno == 0;
}

/// A file, or what may have some: who cannot be listed is not empty.
bool has_file_below(const fs::path& folder) {
    std::error_code unreadable;
    for (const fs::path& path : list_folder(folder, unreadable)) {
        struct stat facts {};
        if (::lstat(path.c_str(), &facts) != 0 ? errno != ENOENT
                                               : !S_ISDIR(facts.st_mode) || has_file_below(path))
            return true;
    }
    return unreadable && unreadable.value() != ENOENT;
}

}  // namespace

std::int64_t bytes_of(const std::vector<OutFile>& files) {
    std::int64_t sum = 0;
    for (const OutFile& file : files)
        sum += file.bytes;
    return sum;
}

std::int64_t count_of(const std::vector<OutFile>& files) {
    return std::count_if(files.begin(), files.end(),
                         [](const OutFile& file) { return file.kind != OutFile::Kind::folder; });
}

std::int64_t LeftOut::bytes() const {
    std::int64_t sum = 0;
    for (const Part& part : parts)
        sum += part.bytes;
    return sum;
}

std::int64_t LeftOut::files() const {
    std::int64_t sum = 0;
    for (const Part& part : parts)
        sum += part.files;
    return sum;
}

fs::path out_root(const fs::path& scratch) { return stage_folder(scratch) / "out"; }

OutFolder::OutFolder(OwnedFolder folder, UniqueFd lock, OutOrder order, bool was_here)
    : folder_(std::move(folder)),
      lock_(std::move(lock)),
      order_(std::move(order)),
      was_here_(was_here) {}

OutFolder OutFolder::make(const fs::path& scratch, const OutOrder& order, bool picks_up) {
    const OwnedFolder root = open_root(scratch);
    const std::string name = as_file_name(order.run_id) + '@' + as_file_name(order.node);
    for (int i = 0; i < kMostOfOneName; ++i) {
        OwnedFolder folder = root.private_folder(i == 0 ? name : fmt::format("{}.{}", name, i));
        UniqueFd lock = picks_up ? lock_left(folder, order) : lock_folder(folder.path(), LOCK_EX);
        if (!lock)
            continue;
        const auto earlier = folder.read(kOrder, kMostOrder);
        bool was_here = false;
        if (earlier) {
            was_here = picks_up && parse_out_order(*earlier).run_dir == order.run_dir;
            if (!was_here)
                continue;
            folder.remove(kEnd);
        }
        folder.replace(kOrder, as_text(order), 0600);
        const OwnedFolder data = folder.private_folder(kData);
        for (const OutEntry& entry : order.entries)
            if (!is_folder(data.path() / entry.name))  // its ranks may have opened it to others
                data.private_folder(entry.name);
        folder.private_folder(kCopied);
        sync_directory(folder.path());
        ::flock(lock.get(), LOCK_SH);  // its copier has it, too
        return {std::move(folder), std::move(lock), order, was_here};
    }
    throw ExitError(
        exit_code::kCannotCreate, ErrorCode::system,
        "storage.stage_out: there are too many folders " + (root.path() / name).string(),
        "autolaunch stage-out says what they are");
}

std::optional<OutFolder> OutFolder::open(const fs::path& path, bool alone) {
    UniqueFd lock = lock_folder(path, alone ? LOCK_EX : LOCK_SH);
    if (!lock)
        return std::nullopt;
    OwnedFolder folder = OwnedFolder::open(path);
    const auto text = folder.read(kOrder, kMostOrder);
    if (!text)
        throw Error(ErrorCode::corrupt, path.string() + " has no file " + kOrder);
    OutOrder order = parse_out_order(*text);
    return OutFolder(std::move(folder), std::move(lock), std::move(order), true);
}

fs::path OutFolder::path_of(const std::string& name) const { return path() / kData / name; }

bool OutFolder::has(const std::string& name) const {
    struct stat facts {};
    return ::lstat(path_of(name).c_str(), &facts) == 0 || errno != ENOENT;
}

// ENOTDIR and ELOOP of what has taken the folder's place, too.
bool OutFolder::has_files(const std::string& name) const { return has_file_below(path_of(name)); }

namespace {

[[noreturn]] void cannot_list(const fs::path& folder, int error) {
    const bool is_another = error == ENOTDIR || error == ELOOP;
    throw ExitError(exit_code::kNoInput, ErrorCode::system,
                    SystemError(error, "list " + folder.string()).what(),
                    is_another ? "it is no folder any more: move it into a folder of that name"
                               : "chmod u+rwx " + folder.string());
}

}  // namespace

std::vector<OutFile> OutFolder::walk(const std::string& name) const {
    const UniqueFd top(::open(path_of(name).c_str(), kOpenFolder));
    std::vector<OutFile> found;
    if (!top || !walk_below(top.get(), {}, found))
        cannot_list(path_of(name), errno);
    std::sort(found.begin(), found.end(),
              [](const OutFile& a, const OutFile& b) { return a.path < b.path; });
    return found;
}

std::vector<std::string> OutFolder::strangers() const {
    std::vector<std::string> names;
    std::error_code unreadable;
    for (const fs::path& path : list_folder(this->path() / kData, unreadable))
        if (std::none_of(order_.entries.begin(), order_.entries.end(),
                         [&](const OutEntry& entry) { return path.filename() == entry.name; }))
            names.push_back(path.filename());
    return names;
}

UniqueFd OutFolder::open_file(const std::string& name, const OutFile& file) const {
    const UniqueFd top(::open(path_of(name).c_str(), kOpenFolder));
    return top ? open_beneath(top.get(), file.path, O_RDONLY | O_NONBLOCK) : UniqueFd();
}

OutEnd OutFolder::end() const {
    auto text = folder_.read(kEnd, kMostOrder);
    if (text && text->ends_with('\n'))
        text->pop_back();
    return text ? out_end_of(*text) : OutEnd::unknown;
}

void OutFolder::set_end(OutEnd end) const {
    folder_.replace(kEnd, std::string(name_of(end)) + '\n', 0600);
}

UniqueFd OutFolder::open_journal(const std::string& name) const {
    return folder_.private_folder(kCopied).append(name, 0600);
}

std::string OutFolder::read_journal(const std::string& name) const {
    const fs::path journal = path() / kCopied / name;
    return is_file(journal) ? read_file(journal) : std::string();
}

bool OutFolder::is_copied(const std::string& name) const {
    if (!has(name))
        return true;
    const auto known = parse_journal(read_journal(name));
    const std::vector<OutFile> files = walk(name);
    return std::all_of(files.begin(), files.end(), [&](const OutFile& file) {
        const auto copied = known.find(file.path);
        if (file.kind == OutFile::Kind::closed)
            return false;
        return file.kind != OutFile::Kind::file ||
               (copied != known.end() && copied->second.bytes == file.bytes &&
                copied->second.mtime_ns == file.mtime_ns);
    });
}

void OutFolder::set_terms(bool may_overwrite, bool by_node) {
    for (OutEntry& entry : order_.entries) {
        entry.may_overwrite = entry.may_overwrite || may_overwrite;
        entry.by_node = entry.by_node || by_node;
    }
}

void OutFolder::remove(const std::string& name) const {
    const OwnedFolder data = folder_.private_folder(kData);
    remove_beneath(data.fd(), name);
    folder_.private_folder(kCopied).remove(name);
}

// The order last: a folder without one has nothing in it.
void OutFolder::remove_if_empty() const {
    if (is_folder(path() / kData) && !list_folder(path() / kData).empty())
        return;
    for (const char* inner : {kData, kCopied, kEnd, kOrder})
        remove_beneath(folder_.fd(), inner);
    empty_beneath(folder_.fd(), path().string());
    ::rmdir(path().c_str());
}

namespace {

std::int64_t seconds_of(const fs::path& path) {
    struct stat facts {};
    return ::lstat(path.c_str(), &facts) == 0 ? facts.st_mtim.tv_sec : 0;
}

LeftOut look_at_left(const fs::path& path) {
    LeftOut left{.path = path};
    left.changed_s = seconds_of(path);
    try {
        const auto alone = OutFolder::open(path, true);
        left.is_held = !alone;
        const OwnedFolder folder = OwnedFolder::open(path);
        left.order = parse_out_order(folder.read(kOrder, kMostOrder).value_or(""));
        if (!alone)
            return left;
        left.end = alone->end();
        for (const OutEntry& entry : left.order.entries) {
            if (!alone->has(entry.name))
                continue;
            const std::vector<OutFile> files = alone->walk(entry.name);
            for (const OutFile& file : files)
                left.changed_s = std::max(left.changed_s, file.mtime_ns / 1'000'000'000);
            if (count_of(files) > 0)
                left.parts.push_back({entry, count_of(files), bytes_of(files)});
        }
        if (const auto others = alone->strangers(); left.parts.empty() && !others.empty())
            left.why_unreadable = fmt::format(
                "{} is in no entry's folder: move it away, or remove it with "
                "autolaunch stage-out --discard {}",
                (path / kData / others.front()).string(), path.filename().string());
    } catch (const Error& error) {
        left.why_unreadable =
            error.what() + (error.hint().empty() ? std::string() : "; " + error.hint());
    }
    return left;
}

}  // namespace

std::vector<std::string> jobs_not_copied(const fs::path& scratch) {
    std::vector<std::string> jobs;
    std::error_code error;
    for (const fs::path& job : list_folder(out_root(scratch), error)) {
        const UniqueFd lock = lock_folder(job, LOCK_EX);
        if (!lock)
            continue;
        std::ifstream text(job / kEnd);
        std::string end;
        std::getline(text, end);
        if (end != name_of(OutEnd::requeued) && has_file_below(job / kData))
            jobs.push_back(job.filename().string());
    }
    return jobs;
}

bool remove_all_of(const fs::path& job) {
    const auto folder = OutFolder::open(job, true);
    if (!folder)
        return false;
    for (const OutEntry& entry : folder->order().entries)
        folder->remove(entry.name);
    for (const std::string& name : folder->strangers())
        folder->remove(name);
    folder->remove_if_empty();
    return true;
}

std::vector<LeftOut> list_left_out(const fs::path& scratch) {
    std::vector<LeftOut> left;
    const fs::path root = out_root(scratch);
    if (!is_folder(root))
        return left;
    for (const fs::path& path : list_folder(root)) {
        if (!path_exists(path / kOrder) && !path_exists(path / kData)) {
            if (const UniqueFd lock = lock_folder(path, LOCK_EX)) {
                empty_beneath(lock.get(), path.string());
                ::rmdir(path.c_str());
            }
            if (!path_exists(path))
                continue;
        }
        LeftOut one = look_at_left(path);
        const bool is_nothing = !one.is_held && one.why_unreadable.empty() && one.parts.empty();
        if (!is_nothing)
            left.push_back(std::move(one));
        else
            remove_all_of(path);
    }
    return left;
}

}  // namespace autolaunch::launcher
