#include "base/file_io.hpp"
#include "base/io_queue.hpp"
#include "data/row_source.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <unordered_map>
#include <utility>

namespace autolaunch::data {

namespace {

constexpr unsigned kDepth = 64;                // reads at once
constexpr unsigned kThreads = 16;              // of them where each takes a thread
constexpr std::uint64_t kReadBytes = 1 << 19;  // of one of them, at most
constexpr std::uint64_t kAlignment = ReadMemory::kAlignment;

std::uint64_t down(std::uint64_t offset) { return offset / kAlignment * kAlignment; }
std::uint64_t up(std::uint64_t offset) { return down(offset + kAlignment - 1); }

class QueuedShard final : public OpenShard {
public:
    QueuedShard(const TokenShard& shard, std::atomic<bool>& direct) : asked_for_(shard.bytes) {
        if (direct) {
            fd_ =
                UniqueFd(::open(shard.path.c_str(), O_RDONLY | O_NONBLOCK | O_DIRECT | O_CLOEXEC));
            direct = static_cast<bool>(fd_) || errno != EINVAL;  // its refusal
        }
        if (!fd_)
            fd_ = open_file(shard.path, O_RDONLY | O_NONBLOCK);
        require_size(fd_.get(), shard);
    }

    int fd() const { return fd_.get(); }

    /// Reads of many parts at once look random to the kernel, which then reads nothing ahead by
    /// itself.
    void ask_for(const Extent& extent) {
        asked_for_.each_new(extent.begin, extent.end, [&](std::uint64_t begin, std::uint64_t end) {
            ::posix_fadvise(fd_.get(), static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                            POSIX_FADV_WILLNEED);
        });
    }

private:
    UniqueFd fd_;
    Parts asked_for_;
};

class QueuedRows final : public RowSource {
public:
    QueuedRows(const DataSet& set, bool direct)
        : RowSource(set), wants_direct_(direct), direct_(direct), queue_(make_uring_queue(kDepth)) {
        const unsigned depth = queue_ ? kDepth : kThreads;
        if (!queue_)
            queue_ = make_thread_queue(depth);
        for (std::size_t tag = 0; tag < depth; ++tag)
            free_tags_.push_back(tag);
    }

    void begin(RowMemory& rows) override;
    void progress() override;
    std::string words() const override;

private:
    /// A read, which may take several requests.
    struct Read {
        RowMemory* rows = nullptr;
        std::size_t shard = 0;
        IoRequest request;
        std::uint64_t needed = 0;  ///< bytes from the request's offset on; what is more is padding
        bool was_refused = false;  ///< as one of O_DIRECT
    };

    QueuedShard& open(std::size_t index, RowMemory& rows);
    void submit();
    bool continues(Read& read, std::int64_t moved);
    void stop_being_direct(const Read& read);

    const bool wants_direct_;
    std::atomic<bool> direct_;  // words() is for another thread
    std::unordered_map<std::size_t, std::weak_ptr<QueuedShard>> open_;
    std::deque<Read> waiting_;
    Read under_way_[kDepth];
    std::vector<std::size_t> free_tags_;
    std::unique_ptr<IoQueue> queue_;  // last: what is under way uses the memory of batches
};

QueuedShard& QueuedRows::open(std::size_t index, RowMemory& rows) {
    auto shard = open_[index].lock();
    if (!shard) {
        std::erase_if(open_, [](const auto& one) { return one.second.expired(); });
        await(index);
        shard = std::make_shared<QueuedShard>(set().shards[index], direct_);
        open_[index] = shard;
    }
    if (rows.held.empty() || rows.held.back() != shard) {
        require_size(shard->fd(), set().shards[index]);
        rows.held.push_back(shard);
    }
    return *shard;
}

void QueuedRows::begin(RowMemory& rows) {
    std::uint64_t bytes = 0;
    for (const Extent& extent : rows.plan.extents)
        bytes += up(extent.end) - down(extent.begin);
    std::byte* memory = rows.memory.take(bytes);
    rows.extents.clear();
    rows.held.clear();
    rows.open_reads = 0;
    for (const Extent& extent : rows.plan.extents) {
        QueuedShard& shard = open(extent.shard, rows);
        if (!direct_)
            shard.ask_for(extent);
        rows.extents.push_back(memory + (extent.begin - down(extent.begin)));
        for (std::uint64_t at = down(extent.begin); at < extent.end; at += kReadBytes) {
            const std::uint64_t end = std::min(at + kReadBytes, up(extent.end));
            waiting_.push_back({&rows,
                                extent.shard,
                                {shard.fd(), false, at, memory, end - at, 0},
                                std::min(end, extent.end) - at});
            memory += end - at;
            ++rows.open_reads;
        }
    }
    submit();
}

void QueuedRows::submit() {
    while (!waiting_.empty() && !free_tags_.empty()) {
        const std::size_t tag = free_tags_.back();
        free_tags_.pop_back();
        under_way_[tag] = waiting_.front();
        waiting_.pop_front();
        under_way_[tag].request.tag = tag;
        queue_->start(under_way_[tag].request);
    }
}

void QueuedRows::progress() {
    const IoResult result = queue_->wait();
    Read& read = under_way_[result.tag];
    if (continues(read, result.moved))
        return;
    RowMemory& rows = *read.rows;
    free_tags_.push_back(result.tag);
    submit();
    if (--rows.open_reads == 0)
        place_rows(rows);
}

// Some file systems take the flag when a file is opened and refuse the read.
void QueuedRows::stop_being_direct(const Read& read) {
    const int flags = ::fcntl(read.request.fd, F_GETFL);
    if (flags < 0 || ::fcntl(read.request.fd, F_SETFL, flags & ~O_DIRECT) != 0)
        throw SystemError(errno,
                          "turn off direct input of " + set().shards[read.shard].path.string());
    direct_ = false;
}

// What is left of a read after its last request; false when it is over.
bool QueuedRows::continues(Read& read, std::int64_t moved) {
    IoRequest& request = read.request;
    const TokenShard& shard = set().shards[read.shard];
    if (moved == -EINVAL && wants_direct_ && !std::exchange(read.was_refused, true)) {
        stop_being_direct(read);
    } else if (moved < 0 && moved != -EAGAIN && moved != -EINTR) {
        throw SystemError(static_cast<int>(-moved), "read " + shard.path.string() + " at byte " +
                                                        std::to_string(request.offset));
    } else if (moved >= 0) {
        const auto got = static_cast<std::uint64_t>(moved);
        if (got >= read.needed)
            return false;
        if (got == 0) {
            require_size(request.fd, shard);
            throw Error(ErrorCode::corrupt,
                        shard.path.string() + " ends at byte " + std::to_string(request.offset));
        }
        // A short read of O_DIRECT ends on a block; what is between is read again.
        const std::uint64_t done = direct_ ? down(got) : got;
        request.offset += done;
        request.memory += done;
        request.bytes -= done;
        read.needed -= done;
        if (done == 0)
            stop_being_direct(read);
    }
    queue_->start(request);
    return true;
}

std::string QueuedRows::words() const {
    std::string words = direct_ ? "O_DIRECT by " : "page cache by ";
    words += queue_->kind();
    if (queue_->kind() != "io_uring")
        words += ", for this build or kernel has no io_uring or refuses it";
    if (wants_direct_ && !direct_)
        words += ", for the file system refuses O_DIRECT";
    return words;
}

}  // namespace

std::unique_ptr<RowSource> make_queued_source(const DataSet& set, bool direct) {
    return std::make_unique<QueuedRows>(set, direct);
}

}  // namespace autolaunch::data
