#include "stage_cache/tree_copy.hpp"

#include "base/hash.hpp"
#include "exit_codes/exit_error.hpp"
#include "stage_cache/beneath.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

namespace autolaunch::launcher {

namespace {

constexpr std::int64_t kWriteBack = 8 << 20;  // from so many bytes on, the disk may begin
constexpr mode_t kWritable = 0600, kFolderWhileFilled = 0700;

/// So many bytes a second, of any number of threads.
class Throttle {
public:
    explicit Throttle(std::int64_t bytes_per_second) : rate_(bytes_per_second) {}
    void take(std::int64_t bytes) {
        if (rate_ <= 0)
            return;
        using namespace std::chrono;
        steady_clock::time_point until;
        {
            const std::lock_guard lock(mutex_);
            free_at_ = std::max(free_at_, steady_clock::now()) +
                       duration_cast<steady_clock::duration>(duration<double>(
                           static_cast<double>(bytes) / static_cast<double>(rate_)));
            until = free_at_;
        }
        std::this_thread::sleep_until(until);
    }

private:
    const std::int64_t rate_;
    std::mutex mutex_;
    std::chrono::steady_clock::time_point free_at_{};
};

struct stat facts_of(int fd, const std::string& shown) {
    struct stat facts {};
    if (::fstat(fd, &facts) != 0)
        throw SystemError(errno, "look at " + shown);
    return facts;
}

[[noreturn]] void was_changed(const std::string& shown) {
    throw ExitError(exit_code::kNoInput, ErrorCode::mismatch,
                    shown + " was changed while it was staged",
                    "start the job once nobody writes there any more");
}

void check_unchanged(int fd, const TreeEntry& entry, const std::string& shown) {
    const struct stat now = facts_of(fd, shown);
    if (!S_ISREG(now.st_mode) || now.st_size != entry.bytes ||
        nanoseconds_of(now.st_mtim) != entry.mtime_ns ||
        nanoseconds_of(now.st_ctim) != entry.ctime_ns)
        was_changed(shown);
}

/// As much as there is, up to a chunk.
std::size_t read_chunk(int fd, char* into, off_t at, const std::string& shown) {
    std::size_t got = 0;
    while (got < ChunkedDigest::kChunk) {
        const ssize_t some =
            ::pread(fd, into + got, ChunkedDigest::kChunk - got, at + static_cast<off_t>(got));
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            throw ExitError(exit_code::kNoInput, ErrorCode::system,
                            SystemError(errno, "read " + shown).what(),
                            "the file system that it is on has to answer");
        if (some == 0)
            break;
        got += static_cast<std::size_t>(some);
    }
    return got;
}

void write_chunk(int fd, const char* from, std::size_t bytes, off_t at, const std::string& shown) {
    while (bytes > 0) {
        const ssize_t some = ::pwrite(fd, from, bytes, at);
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0)
            throw SystemError(some == 0 ? ENOSPC : errno, "write " + shown);
        from += some;
        at += some;
        bytes -= static_cast<std::size_t>(some);
    }
}

class Copier {
public:
    Copier(SourceTree& source, int into, std::string into_shown, const CopyOptions& options,
           CopyProgress& progress)
        : source_(source),
          into_(into),
          into_shown_(std::move(into_shown)),
          options_(options),
          progress_(progress),
          throttle_(options.bytes_per_second) {}

    void run() {
        make_folders_and_links();
        const std::size_t files = static_cast<std::size_t>(source_.tree.file_count());
        const std::size_t threads =
            std::clamp<std::size_t>(files, 1, static_cast<std::size_t>(options_.threads));
        {
            std::vector<std::jthread> others;
            for (std::size_t i = 1; i < threads; ++i)
                others.emplace_back([this] { work(); });
            work();
        }
        if (failure_)
            std::rethrow_exception(failure_);
    }

private:
    std::string shown(const TreeEntry& entry) const { return into_shown_ + '/' + entry.path; }

    void make_folders_and_links() {
        for (const TreeEntry& entry : source_.tree.entries) {
            if (entry.kind == TreeEntry::Kind::folder &&
                ::mkdirat(into_, entry.path.c_str(), kFolderWhileFilled) != 0 && errno != EEXIST)
                throw SystemError(errno, "create the folder " + shown(entry));
            if (entry.kind == TreeEntry::Kind::folder)
                ::fchmodat(into_, entry.path.c_str(), kFolderWhileFilled, 0);
            if (entry.kind != TreeEntry::Kind::link)
                continue;
            if (::unlinkat(into_, entry.path.c_str(), 0) != 0 && errno != ENOENT)
                throw SystemError(errno, "remove " + shown(entry));
            if (::symlinkat(entry.target.c_str(), into_, entry.path.c_str()) != 0)
                throw SystemError(errno, "create the link " + shown(entry));
        }
    }

    void work() {
        std::vector<char> buffer(ChunkedDigest::kChunk);
        try {
            for (std::size_t at; (at = next_++) < source_.tree.entries.size() && !stop_;) {
                TreeEntry& entry = source_.tree.entries[at];
                if (entry.kind != TreeEntry::Kind::file)
                    continue;
                if (!link(entry) && !resume(entry))
                    entry.bytes == 0 ? make_empty(entry) : copy(entry, buffer);
                ++progress_.files;
            }
        } catch (...) {
            const std::lock_guard lock(mutex_);
            if (!failure_)
                failure_ = std::current_exception();
            stop_ = true;
        }
    }

    bool link(TreeEntry& entry) {
        const auto here = options_.find_here ? options_.find_here(entry) : std::nullopt;
        if (!here)
            return false;
        ::unlinkat(into_, entry.path.c_str(), 0);
        if (::linkat(AT_FDCWD, here->path.c_str(), into_, entry.path.c_str(), 0) != 0)
            return false;
        const UniqueFd file = open_beneath(into_, entry.path, O_RDONLY);
        if (!file)
            return false;
        dress(file.get(), entry);
        entry.digest = here->digest;
        progress_.bytes += entry.bytes;
        return true;
    }

    // Its mode is its last, so it was whole when an earlier attempt was killed.
    bool resume(TreeEntry& entry) {
        if (!options_.may_resume)
            return false;
        const UniqueFd file = open_beneath(into_, entry.path, O_RDONLY);
        if (!file)
            return false;
        const struct stat facts = facts_of(file.get(), shown(entry));
        if (!S_ISREG(facts.st_mode) || facts.st_size != entry.bytes ||
            (facts.st_mode & 07777) != entry.mode ||
            nanoseconds_of(facts.st_mtim) != entry.mtime_ns)
            return false;
        entry.digest = digest_of_file(file.get(), shown(entry));
        progress_.bytes += entry.bytes;
        progress_.found_bytes += entry.bytes;
        return true;
    }

    // Nothing of the source is needed for it.
    void make_empty(TreeEntry& entry) {
        const UniqueFd to = make(entry);
        dress(to.get(), entry);
        entry.digest = ChunkedDigest().value();
    }

    UniqueFd make(const TreeEntry& entry) const {
        if (::unlinkat(into_, entry.path.c_str(), 0) != 0 && errno != ENOENT)
            throw SystemError(errno, "remove " + shown(entry));
        UniqueFd to = open_beneath(into_, entry.path, O_WRONLY | O_CREAT | O_EXCL, kWritable);
        if (!to)
            throw SystemError(errno, "create " + shown(entry));
        return to;
    }

    void copy(TreeEntry& entry, std::vector<char>& buffer) {
        const std::string from_shown = source_.path_of(entry);
        const UniqueFd from = source_.open(entry);
        check_unchanged(from.get(), entry, from_shown);
        const UniqueFd to = make(entry);
        reserve(to.get(), entry);
        ChunkedDigest digest;
        std::int64_t done = 0, asked_for = 0;
        while (done < entry.bytes && !stop_) {
            const std::size_t wanted = static_cast<std::size_t>(std::min<std::int64_t>(
                entry.bytes - done, static_cast<std::int64_t>(ChunkedDigest::kChunk)));
            throttle_.take(static_cast<std::int64_t>(wanted));
            if (read_chunk(from.get(), buffer.data(), done, from_shown) < wanted)
                was_changed(from_shown);
            digest.add(buffer.data(), wanted);
            write_chunk(to.get(), buffer.data(), wanted, done, shown(entry));
            done += static_cast<std::int64_t>(wanted);
            progress_.bytes += static_cast<std::int64_t>(wanted);
            progress_.read_bytes += static_cast<std::int64_t>(wanted);
            if (done - asked_for >= kWriteBack) {
                ::sync_file_range(to.get(), asked_for, done - asked_for, SYNC_FILE_RANGE_WRITE);
                asked_for = done;
            }
        }
        if (stop_)
            return;
        check_unchanged(from.get(), entry, from_shown);
        dress(to.get(), entry);
        entry.digest = digest.value();
    }

    // All of it at once: a disk that is too full says so before it was filled.
    void reserve(int fd, const TreeEntry& entry) const {
        if (entry.bytes > static_cast<std::int64_t>(ChunkedDigest::kChunk) &&
            ::fallocate(fd, 0, 0, entry.bytes) != 0 && errno != EOPNOTSUPP && errno != ENOSYS)
            throw SystemError(errno, "write " + shown(entry));
    }

    void dress(int fd, const TreeEntry& entry) const {
        const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW},
                                   timespec_of(entry.mtime_ns)};
        if (::futimens(fd, times) != 0 || ::fchmod(fd, entry.mode) != 0)
            throw SystemError(errno, "set the mode of " + shown(entry));
    }

    SourceTree& source_;
    const int into_;
    const std::string into_shown_;
    const CopyOptions& options_;
    CopyProgress& progress_;
    Throttle throttle_;
    std::atomic<std::size_t> next_{0};
    std::atomic<bool> stop_{false};
    std::mutex mutex_;
    std::exception_ptr failure_;
};

Mark mark_of(int folder, const std::string& path, int flags) {
    struct stat facts {};
    if (::fstatat(folder, path.c_str(), &facts, flags) != 0)
        throw SystemError(errno, "look at " + path);
    return {facts.st_ino, nanoseconds_of(facts.st_mtim)};
}

}  // namespace

void ChunkedDigest::add(const void* chunk, std::size_t bytes) {
    chunks_.push_back(hash128(chunk, bytes));
}

Digest128 ChunkedDigest::value() const { return hash128_of(chunks_); }

Digest128 digest_of_file(int fd, const std::string& shown) {
    ChunkedDigest digest;
    std::vector<char> buffer(ChunkedDigest::kChunk);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    for (off_t at = 0;;) {
        const std::size_t got = read_chunk(fd, buffer.data(), at, shown);
        if (got > 0)
            digest.add(buffer.data(), got);
        if (got < ChunkedDigest::kChunk)
            return digest.value();
        at += static_cast<off_t>(got);
    }
}

void copy_tree(SourceTree& source, int into, const std::string& into_shown,
               const CopyOptions& options, CopyProgress& progress) {
    Copier(source, into, into_shown, options, progress).run();
}

std::vector<Mark> finish_tree(int into, const Tree& tree) {
    for (auto entry = tree.entries.rbegin(); entry != tree.entries.rend(); ++entry)
        if (entry->kind == TreeEntry::Kind::folder &&
            ::fchmodat(into, entry->path.c_str(), kKeptFolderMode, 0) != 0)
            throw SystemError(errno, "set the mode of " + entry->path);
    if (::fchmod(into, kKeptFolderMode) != 0)
        throw SystemError(errno, "set the mode of a staged folder");
    std::vector<Mark> marks{mark_of(into, "", AT_EMPTY_PATH)};
    for (const TreeEntry& entry : tree.entries)
        marks.push_back(mark_of(into, entry.path, AT_SYMLINK_NOFOLLOW));
    return marks;
}

}  // namespace autolaunch::launcher
