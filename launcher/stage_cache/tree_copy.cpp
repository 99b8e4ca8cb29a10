#include "stage_cache/tree_copy.hpp"

#include "base/hash.hpp"
#include "base/network_file_system.hpp"
#include "exit_codes/exit_error.hpp"
#include "stage_cache/beneath.hpp"
#include "stage_cache/throttle.hpp"

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

/// As much as there is, up to a chunk.
std::size_t read_chunk(int fd, char* into, off_t at, const std::string& shown) {
    std::size_t got = 0;
    while (got < ChunkedDigest::kChunk) {
        const ssize_t some =
            ::pread(fd, into + got, ChunkedDigest::kChunk - got, at + static_cast<off_t>(got));
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            throw ExitError(is_lost_server(errno) ? exit_code::kUnavailable : exit_code::kNoInput,
                            ErrorCode::system, SystemError(errno, "read " + shown).what(),
                            "the file system that it is on has to answer");
        if (some == 0)
            break;
        got += static_cast<std::size_t>(some);
    }
    return got;
}

class Copier {
public:
    Copier(SourceTree& source, int into, const std::string& into_shown, const CopyOptions& options,
           CopyProgress& progress)
        : source_(source),
          into_(into),
          files_(into, into_shown),
          options_(options),
          progress_(progress),
          throttle_(options.bytes_per_second) {}

    void run() {
        files_.make_folders_and_links(source_.tree);
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
    void work() {
        std::vector<char> buffer(ChunkedDigest::kChunk);
        try {
            for (std::size_t at; (at = next_++) < source_.tree.entries.size() && !stop_;) {
                TreeEntry& entry = source_.tree.entries[at];
                if (entry.kind != TreeEntry::Kind::file)
                    continue;
                if (entry.bytes == 0 && source_.folder)  // else another node has looked
                    require_empty(entry);
                if (!is_here(files_, entry, options_, progress_))
                    copy(entry, buffer);
                if (options_.on_whole && !stop_)
                    options_.on_whole(entry, into_);
                ++progress_.files;
            }
        } catch (...) {
            const std::lock_guard lock(mutex_);
            if (!failure_)
                failure_ = std::current_exception();
            stop_ = true;
            throttle_.give_up();
        }
    }

    /// Files of /proc and the like say nothing of how much they hold.
    void require_empty(const TreeEntry& entry) const {
        char byte = 0;
        const std::string shown = source_.path_of(entry);
        const UniqueFd from = source_.open(entry);
        if (::read(from.get(), &byte, 1) > 0)
            throw ExitError(exit_code::kNoInput, ErrorCode::mismatch,
                            shown + " has more bytes than it says, which is none",
                            "it is made as it is read: stage a copy of it");
    }

    void copy(TreeEntry& entry, std::vector<char>& buffer) {
        const std::string from_shown = source_.path_of(entry);
        const UniqueFd from = source_.open(entry);
        check_unchanged(from.get(), entry, from_shown);
        const UniqueFd to = files_.make(entry);
        ChunkedDigest digest;
        std::int64_t done = 0, asked_for = 0;
        while (done < entry.bytes && !stop_) {
            const std::size_t wanted = static_cast<std::size_t>(std::min<std::int64_t>(
                entry.bytes - done, static_cast<std::int64_t>(ChunkedDigest::kChunk)));
            throttle_.take(static_cast<std::int64_t>(wanted));
            if (read_chunk(from.get(), buffer.data(), done, from_shown) < wanted)
                was_changed(from_shown);
            digest.add(buffer.data(), wanted);
            files_.write(to.get(), entry, buffer.data(), wanted, done);
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
        files_.dress(to.get(), entry);
        entry.digest = digest.value();
    }

    SourceTree& source_;
    const int into_;
    const TreeFiles files_;
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

void was_changed(const std::string& shown) {
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

bool is_here(const TreeFiles& files, TreeEntry& entry, const CopyOptions& options,
             CopyProgress& progress) {
    const auto here = options.find_here ? options.find_here(entry) : std::nullopt;
    if (here && files.link(entry, *here)) {
        progress.bytes += entry.bytes;
        return true;
    }
    if (options.may_resume && files.find_whole(entry)) {
        progress.bytes += entry.bytes;
        progress.found_bytes += entry.bytes;
        return true;
    }
    if (entry.bytes == 0)
        files.make_empty(entry);
    return entry.bytes == 0;
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
