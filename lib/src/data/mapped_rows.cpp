#include "base/file_io.hpp"
#include "data/row_source.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <deque>
#include <unordered_map>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; headers may be older than the kernel
#endif

namespace autolaunch::data {

namespace {

class MappedShard final : public OpenShard {
public:
    explicit MappedShard(const TokenShard& shard)
        : shard_(&shard),
          fd_(open_file(shard.path, O_RDONLY | O_NONBLOCK)),
          asked_for_(shard.bytes),
          populated_(shard.bytes) {
        require_size(fd_.get(), shard);
        void* const start = ::mmap(nullptr, shard.bytes, PROT_READ, MAP_SHARED, fd_.get(), 0);
        if (start == MAP_FAILED)
            throw SystemError(errno, "map " + shard.path.string());
        start_ = static_cast<std::byte*>(start);
    }
    MappedShard(const MappedShard&) = delete;
    MappedShard& operator=(const MappedShard&) = delete;
    ~MappedShard() override { ::munmap(start_, shard_->bytes); }

    const std::byte* start() const { return start_; }
    void check() const override { require_size(fd_.get(), *shard_); }

    /// Has the kernel begin to read. That it does not would only be slower.
    void ask_for(const Extent& extent) {
        asked_for_.each_new(extent.begin, extent.end, [&](std::uint64_t begin, std::uint64_t end) {
            ::madvise(start_ + begin, end - begin, MADV_WILLNEED);
        });
    }

    /// Waits until it has read, and has the pages ready for whoever reads them next. Unlike a look
    /// at the memory this cannot end in SIGBUS.
    void populate(const Extent& extent) {
        populated_.each_new(extent.begin, extent.end, [&](std::uint64_t begin, std::uint64_t end) {
            while (::madvise(start_ + begin, end - begin, MADV_POPULATE_READ) != 0) {
                const int error = errno;
                if (error == EINTR || error == EAGAIN)
                    continue;
                if (error == EINVAL)
                    return;  // kernels before 5.14 do not know it
                check();
                throw SystemError(error == EFAULT ? EIO : error, "read " + shard_->path.string() +
                                                                     " from byte " +
                                                                     std::to_string(begin) + " on");
            }
        });
    }

private:
    const TokenShard* shard_;
    UniqueFd fd_;
    Parts asked_for_, populated_;
    std::byte* start_ = nullptr;
};

/// begin() has the kernel start to read, and progress() waits for it.
class MappedRows final : public RowSource {
public:
    explicit MappedRows(const DataSet& set) : RowSource(set) {}

    void begin(RowMemory& rows) override {
        rows.extents.clear();
        rows.held.clear();
        for (const Extent& extent : rows.plan.extents) {
            MappedShard& shard = open(extent.shard, rows);
            shard.ask_for(extent);
            rows.extents.push_back(shard.start() + extent.begin);
        }
        rows.open_reads = 1;
        waiting_.push_back(&rows);
    }

    void progress() override {
        RowMemory& rows = *waiting_.front();
        waiting_.pop_front();
        for (const Extent& extent : rows.plan.extents)
            open_.at(extent.shard).lock()->populate(extent);
        for (const auto& shard : rows.held)
            shard->check();
        place_rows(rows);
        rows.open_reads = 0;
    }

    std::string words() const override { return "mapping"; }

private:
    MappedShard& open(std::size_t index, RowMemory& rows) {
        auto shard = open_[index].lock();
        if (!shard) {
            std::erase_if(open_, [](const auto& one) { return one.second.expired(); });
            await(index);
            shard = std::make_shared<MappedShard>(set().shards[index]);
            open_[index] = shard;
        }
        if (rows.held.empty() || rows.held.back() != shard)
            rows.held.push_back(shard);
        return *shard;
    }

    std::unordered_map<std::size_t, std::weak_ptr<MappedShard>> open_;
    std::deque<RowMemory*> waiting_;
};

}  // namespace

std::unique_ptr<RowSource> make_mapped_source(const DataSet& set) {
    return std::make_unique<MappedRows>(set);
}

}  // namespace autolaunch::data
