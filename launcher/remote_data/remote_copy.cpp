#include "remote_data/remote_copy.hpp"

#include "base/hash.hpp"
#include "remote_data/arrival_check.hpp"
#include "remote_data/piece_journal.hpp"
#include "remote_data/remote_errors.hpp"
#include "stage_cache/stage_part.hpp"
#include "stage_cache/throttle.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kConnections = 2;  // for each thread that would copy files
constexpr std::size_t kChunk = ChunkedDigest::kChunk;
constexpr std::size_t kNone = static_cast<std::size_t>(-1);
constexpr std::size_t kMostChunks = 8;  // of one request: what a server answers late costs little
constexpr std::int64_t kMostBytes = std::int64_t{1} << 51;  // whose chunks have a place in 32 bits

/// A file of which chunks come.
struct Coming {
    std::size_t entry = 0;
    UniqueFd fd;
    std::vector<Digest128> digests;
    std::optional<ArrivalCheck> check;  ///< none yet: its one chunk comes with its checksum
    std::atomic<std::size_t> left{0};   ///< chunks
};

/// Chunks side by side, in one request.
struct Run {
    std::shared_ptr<Coming> file;
    std::size_t first = 0, count = 0;
};

/// What is to be asked for next: files in their order, each cut when its turn comes.
class Fetch {
public:
    Fetch(const RemoteSource& source, Tree& tree, const FetchPlace& place,
          const CopyOptions& options, CopyProgress& progress)
        : source_(source),
          tree_(tree),
          options_(options),
          progress_(progress),
          threads_(kConnections * static_cast<std::size_t>(options.threads)),
          into_(place.into),
          files_(place.into, place.shown),
          journal_(place.beside, place.shown + '/' + PieceJournal::kName),
          throttle_(options.bytes_per_second),
          first_(place_of(tree, options.first)) {}

    void run() {
        files_.make_folders_and_links(tree_);
        {
            std::vector<std::jthread> others;
            for (std::size_t i = 1; i < threads_; ++i)
                others.emplace_back([this] { work(); });
            work();
        }
        if (failure_)
            std::rethrow_exception(failure_);
    }

private:
    void work() {
        try {
            std::unique_ptr<RemoteReader> reader;
            std::vector<std::byte> buffer;
            while (auto run = next(reader)) {
                connect(reader);
                const TreeEntry& entry = tree_.entries[run->file->entry];
                if (source_.gives_ranges())
                    fetch(*reader, *run, entry, buffer);
                else
                    fetch_whole(*reader, *run, entry, buffer);
            }
        } catch (...) {
            const std::lock_guard lock(mutex_);
            if (!failure_)
                failure_ = std::current_exception();
            changed_.notify_all();
            throttle_.give_up();
        }
    }

    void connect(std::unique_ptr<RemoteReader>& reader) const {
        if (!reader)
            reader = source_.connect();
    }

    std::optional<Run> next(std::unique_ptr<RemoteReader>& reader) {
        std::unique_lock lock(mutex_);
        for (;;) {
            if (failure_)
                return std::nullopt;
            if (!runs_.empty()) {
                Run run = std::move(runs_.front());
                runs_.pop_front();
                return run;
            }
            const std::size_t at = next_entry();
            if (at == tree_.entries.size()) {
                if (looking_ == 0)
                    return std::nullopt;
                changed_.wait(lock);
                continue;
            }
            if (tree_.entries[at].kind != TreeEntry::Kind::file)
                continue;
            ++looking_;
            lock.unlock();
            std::vector<Run> runs;
            try {
                runs = begin(at, reader);
            } catch (...) {
                lock.lock();
                --looking_;
                throw;
            }
            lock.lock();
            --looking_;
            runs_.insert(runs_.end(), std::make_move_iterator(runs.begin()),
                         std::make_move_iterator(runs.end()));
            changed_.notify_all();
        }
    }

    /// With the lock. As they are listed, but for the one that is to be the first.
    std::size_t next_entry() {
        if (first_ != kNone)
            return std::exchange(first_, kNone);
        if (next_entry_ < tree_.entries.size() && tree_.entries[next_entry_].path == options_.first)
            ++next_entry_;
        return next_entry_ == tree_.entries.size() ? next_entry_ : next_entry_++;
    }

    static std::size_t place_of(const Tree& tree, const std::string& path) {
        for (std::size_t at = 0; at < tree.entries.size() && !path.empty(); ++at)
            if (tree.entries[at].path == path)
                return at;
        return kNone;
    }

    std::vector<Run> begin(std::size_t at, std::unique_ptr<RemoteReader>& reader) {
        TreeEntry& entry = tree_.entries[at];
        if (entry.bytes > kMostBytes)
            remote_unusable(entry.path + " is too large", {});
        if (is_here(files_, entry, options_, progress_)) {
            if (journal_.was_unchecked(static_cast<std::uint32_t>(at)))
                count_unchecked();
            is_whole(entry);
            return {};
        }
        auto file = std::make_shared<Coming>();
        file->entry = at;
        file->digests.resize((static_cast<std::size_t>(entry.bytes) + kChunk - 1) / kChunk);
        std::vector<bool> has(file->digests.size());
        connect(reader);
        if (has.size() > 1)
            file->check.emplace(reader->checksum(entry), has.size());
        if (options_.may_resume && source_.gives_ranges())
            file->fd = files_.open_begun(entry);
        if (file->fd)
            find_chunks(*file, entry, has);
        else
            file->fd = files_.make(entry);
        file->left = static_cast<std::size_t>(std::count(has.begin(), has.end(), false));
        if (file->left == 0)
            finish(*file, *reader);
        return cut(file, has);
    }

    /// Those of an earlier attempt that are here as its journal says.
    void find_chunks(Coming& file, const TreeEntry& entry, std::vector<bool>& has) {
        std::vector<char> bytes(kChunk);
        for (std::size_t chunk = 0; chunk < has.size(); ++chunk) {
            const auto digest = journal_.find(static_cast<std::uint32_t>(file.entry),
                                              static_cast<std::uint32_t>(chunk));
            const std::size_t size = bytes_of(entry, chunk, 1);
            if (!digest ||
                ::pread(file.fd.get(), bytes.data(), size, static_cast<off_t>(chunk * kChunk)) !=
                    static_cast<ssize_t>(size) ||
                !(hash128(bytes.data(), size) == *digest))
                continue;
            file.digests[chunk] = *digest;
            if (file.check)
                file.check->add(chunk, std::as_bytes(std::span(bytes.data(), size)));
            has[chunk] = true;
            progress_.bytes += static_cast<std::int64_t>(size);
            progress_.found_bytes += static_cast<std::int64_t>(size);
        }
    }

    static std::size_t bytes_of(const TreeEntry& entry, std::size_t first, std::size_t count) {
        return static_cast<std::size_t>(
            std::min<std::int64_t>(entry.bytes - static_cast<std::int64_t>(first * kChunk),
                                   static_cast<std::int64_t>(count * kChunk)));
    }

    /// Of one request: so many that each thread has a part of a small file, too, and that a
    /// throttle lets something come each second.
    std::size_t most_chunks(std::size_t of) const {
        if (!source_.gives_ranges())
            return of;
        const std::int64_t rate = options_.bytes_per_second;
        const std::size_t allowed =
            rate > 0 ? static_cast<std::size_t>(rate) / kChunk : kMostChunks;
        return std::max<std::size_t>(std::min({of / threads_, allowed, kMostChunks}), 1);
    }

    std::vector<Run> cut(const std::shared_ptr<Coming>& file, const std::vector<bool>& has) const {
        const std::size_t most = most_chunks(has.size());
        std::vector<Run> runs;
        for (std::size_t chunk = 0; chunk < has.size(); ++chunk) {
            if (has[chunk])
                continue;
            if (runs.empty() || runs.back().first + runs.back().count != chunk ||
                runs.back().count == most)
                runs.push_back({file, chunk, 0});
            ++runs.back().count;
        }
        return runs;
    }

    void fetch(RemoteReader& reader, const Run& run, const TreeEntry& entry,
               std::vector<std::byte>& buffer) {
        const std::size_t bytes = bytes_of(entry, run.first, run.count);
        buffer.resize(bytes);
        throttle_.take(static_cast<std::int64_t>(bytes));
        reader.read(entry, static_cast<std::int64_t>(run.first * kChunk), buffer);
        for (std::size_t i = 0; i < run.count; ++i)
            keep(*run.file, entry, run.first + i,
                 {buffer.data() + i * kChunk, bytes_of(entry, run.first + i, 1)});
        ::sync_file_range(run.file->fd.get(), static_cast<off_t>(run.first * kChunk),
                          static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE);
        done(*run.file, run.count, reader);
    }

    void fetch_whole(RemoteReader& reader, const Run& run, const TreeEntry& entry,
                     std::vector<std::byte>& buffer) {
        std::size_t chunk = 0;
        buffer.clear();
        reader.read_all(entry, [&](std::int64_t at, std::span<const std::byte> part) {
            if (at == 0) {  // anew
                progress_.bytes -= static_cast<std::int64_t>(chunk * kChunk);
                chunk = 0;
                buffer.clear();
            }
            throttle_.take(static_cast<std::int64_t>(part.size()));
            while (!part.empty()) {
                const std::size_t wanted = bytes_of(entry, chunk, 1);
                const std::size_t some = std::min(part.size(), wanted - buffer.size());
                buffer.insert(buffer.end(), part.begin(),
                              part.begin() + static_cast<std::ptrdiff_t>(some));
                part = part.subspan(some);
                if (buffer.size() < wanted)
                    continue;
                keep(*run.file, entry, chunk++, buffer);
                buffer.clear();
            }
        });
        done(*run.file, run.count, reader);
    }

    void keep(Coming& file, const TreeEntry& entry, std::size_t chunk,
              std::span<const std::byte> bytes) {
        file.digests[chunk] = hash128(bytes.data(), bytes.size());
        if (file.check)
            file.check->add(chunk, bytes);
        files_.write(file.fd.get(), entry, reinterpret_cast<const char*>(bytes.data()),
                     bytes.size(), static_cast<std::int64_t>(chunk * kChunk));
        journal_.add(static_cast<std::uint32_t>(file.entry), static_cast<std::uint32_t>(chunk),
                     file.digests[chunk]);
        progress_.bytes += static_cast<std::int64_t>(bytes.size());
        progress_.read_bytes += static_cast<std::int64_t>(bytes.size());
    }

    void done(Coming& file, std::size_t chunks, RemoteReader& reader) {
        if (file.left.fetch_sub(chunks) == chunks)
            finish(file, reader);
    }

    void finish(Coming& file, RemoteReader& reader) {
        TreeEntry& entry = tree_.entries[file.entry];
        if (!file.check)
            file.check.emplace(reader.checksum(entry), 0);
        if (!file.check->compare(file.fd.get(), entry, reader)) {
            journal_.note_unchecked(static_cast<std::uint32_t>(file.entry));
            count_unchecked();
        }
        files_.dress(file.fd.get(), entry);
        file.fd.reset();
        entry.digest = hash128_of(file.digests);
        is_whole(entry);
    }

    void count_unchecked() {
        if (source_.is_checked())
            ++progress_.unchecked_files;
    }

    void is_whole(const TreeEntry& entry) {
        if (options_.on_whole)
            options_.on_whole(entry, into_);
        ++progress_.files;
    }

    const RemoteSource& source_;
    Tree& tree_;
    const CopyOptions& options_;
    CopyProgress& progress_;
    const std::size_t threads_;
    const int into_;
    const TreeFiles files_;
    PieceJournal journal_;
    Throttle throttle_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t next_entry_ = 0, first_;  // of the latter, until its turn
    int looking_ = 0;
    std::deque<Run> runs_;
    std::exception_ptr failure_;
};

}  // namespace

void fetch_tree(const RemoteSource& source, Tree& tree, const FetchPlace& place,
                const CopyOptions& options, CopyProgress& progress) {
    Fetch(source, tree, place, options, progress).run();
}

void fetch_tree(const RemoteSource& source, Tree& tree, const StagePart& part,
                const CopyOptions& options, CopyProgress& progress) {
    fetch_tree(source, tree,
               FetchPlace{.into = part.folder(),
                          .beside = part.own_folder(),
                          .shown = (part.path() / kTree).string()},
               options, progress);
}

}  // namespace autolaunch::launcher
