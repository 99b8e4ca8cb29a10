#include "base/file_io.hpp"
#include "data/row_source.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

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
        : fd_(open_file(shard.path, O_RDONLY | O_NONBLOCK)), bytes_(shard.bytes) {
        require_size(fd_.get(), shard);
        void* const start = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd_.get(), 0);
        if (start == MAP_FAILED)
            throw SystemError(errno, "map " + shard.path.string());
        start_ = static_cast<const std::byte*>(start);
    }
    MappedShard(const MappedShard&) = delete;
    MappedShard& operator=(const MappedShard&) = delete;
    ~MappedShard() override { ::munmap(const_cast<std::byte*>(start_), bytes_); }

    int fd() const { return fd_.get(); }
    const std::byte* start() const { return start_; }
    /// Of the pages that these bytes are in.
    int advise(std::uint64_t begin, std::uint64_t end, int advice) const {
        static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
        const std::uint64_t page = begin / bytes * bytes;
        return ::madvise(const_cast<std::byte*>(start_) + page, end - page, advice) == 0 ? 0
                                                                                         : errno;
    }

private:
    UniqueFd fd_;
    std::size_t bytes_;
    const std::byte* start_ = nullptr;
};

/// begin() has the kernel start to read, and progress() waits until it has, and has the pages ready
/// for whoever reads them next.
class MappedRows final : public RowSource {
public:
    explicit MappedRows(const DataSet& set) : set_(&set) {}

    void begin(RowMemory& rows) override {
        rows.extents.clear();
        rows.held.clear();
        for (const Extent& extent : rows.plan.extents) {
            auto shard = open(extent.shard);
            require_size(shard->fd(), set_->shards[extent.shard]);
            shard->advise(extent.begin, extent.end, MADV_WILLNEED);  // it would only be faster
            rows.extents.push_back(shard->start() + extent.begin);
            rows.held.push_back(std::move(shard));
        }
        rows.open_reads = 1;
        waiting_.push_back(&rows);
    }

    void progress() override {
        RowMemory& rows = *waiting_.front();
        waiting_.pop_front();
        for (std::size_t i = 0; i < rows.plan.extents.size(); ++i)
            populate(static_cast<const MappedShard&>(*rows.held[i]), rows.plan.extents[i]);
        place_rows(rows);
        rows.open_reads = 0;
    }

    std::string words() const override { return "mapping"; }

private:
    // Unlike a read of the memory this cannot end in SIGBUS.
    void populate(const MappedShard& shard, const Extent& extent) {
        int error = 0;
        do
            error = shard.advise(extent.begin, extent.end, MADV_POPULATE_READ);
        while (error == EINTR || error == EAGAIN);
        const TokenShard& file = set_->shards[extent.shard];
        require_size(shard.fd(), file);
        if (error != 0 && error != EINVAL)  // which is what kernels before 5.14 say
            throw SystemError(
                error == EFAULT ? EIO : error,
                "read " + file.path.string() + " at byte " + std::to_string(extent.begin));
    }

    std::shared_ptr<const MappedShard> open(std::size_t index) {
        std::weak_ptr<const MappedShard>& known = open_[index];
        auto shard = known.lock();
        if (!shard) {
            std::erase_if(
                open_, [&](const auto& one) { return one.first != index && one.second.expired(); });
            shard = std::make_shared<const MappedShard>(set_->shards[index]);
            open_[index] = shard;
        }
        return shard;
    }

    const DataSet* set_;
    std::unordered_map<std::size_t, std::weak_ptr<const MappedShard>> open_;
    std::deque<RowMemory*> waiting_;
};

}  // namespace

std::unique_ptr<RowSource> make_mapped_source(const DataSet& set) {
    return std::make_unique<MappedRows>(set);
}

}  // namespace autolaunch::data
