#pragma once
#include "base/unique_fd.hpp"
#include "data/data_set.hpp"
#include "data/read_plan.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::data {

/// An open shard, mapped or not; it stays while a batch that was read from it is in use.
class OpenShard {
public:
    virtual ~OpenShard() = default;
    /// Throws Error{corrupt} where what was read is not there any more. Threads: any.
    virtual void check() const {}
};

/// Memory that O_DIRECT reads into, which grows.
class ReadMemory {
public:
    static constexpr std::size_t kAlignment = 4096;
    /// At least so many bytes; what was there is lost. Throws std::bad_alloc.
    std::byte* take(std::size_t bytes);

private:
    struct Free {
        void operator()(std::byte* memory) const noexcept;
    };
    std::unique_ptr<std::byte, Free> memory_;
    std::size_t bytes_ = 0;
};

/// Which parts of a file were seen to already. Windows come in random order, and the kernel is
/// asked once for all that lie in a part.
class Parts {
public:
    static constexpr std::uint64_t kBytes = 2 << 20;
    explicit Parts(std::uint64_t file_bytes)
        : file_bytes_(file_bytes), seen_((file_bytes + kBytes - 1) / kBytes) {}

    /// `see` gets begin and end of each run of parts that these bytes are in and that was not seen.
    template <class See>
    void each_new(std::uint64_t begin, std::uint64_t end, const See& see) {
        for (std::uint64_t part = begin / kBytes; part * kBytes < end; ++part)
            if (!seen_[part]) {
                seen_[part] = true;
                see(part * kBytes, std::min((part + 1) * kBytes, file_bytes_));
            }
    }

private:
    std::uint64_t file_bytes_;
    std::vector<bool> seen_;
};

/// The raw rows of some batches, and what they lie in.
struct RowMemory {
    ReadPlan plan;
    std::vector<const std::byte*> extents;  ///< where each extent's first byte is
    std::vector<const std::byte*> starts;   ///< of each row, once all is read
    std::vector<std::byte> joined;          ///< rows of several parts
    ReadMemory memory;
    std::vector<std::shared_ptr<OpenShard>> held;  ///< each once
    std::size_t open_reads = 0;                    ///< that begin() has left under way
};

/// Sets `starts`, of rows whose extents are all there.
void place_rows(RowMemory& rows);

/// Throws Error{corrupt} where an open file has not the size that it had when it was looked into.
void require_size(int fd, const TokenShard& shard);

/// Reads the rows of several batches side by side. `set` must outlive it. Threads: one. Blocks:
/// progress() and the destructor, as long as the disk does; begin() while a file still comes.
class RowSource {
public:
    explicit RowSource(const DataSet& set) : set_(&set) {}
    virtual ~RowSource() = default;

    /// Whether begin() would not wait for a file that still comes.
    bool is_there(const ReadPlan& plan) const;
    /// begin() does not wait for such any more, and throws Error{aborted}. Threads: any.
    void stop() { stop_ = true; }

    /// Starts to read what rows.plan says; all is there when rows.open_reads is 0.
    virtual void begin(RowMemory& rows) = 0;
    /// Waits until at least one read of those under way is over; there must be one.
    virtual void progress() = 0;
    /// For TokenReader::reading_by().
    virtual std::string words() const = 0;

protected:
    const DataSet& set() const { return *set_; }
    /// Before its file is opened.
    void await(std::size_t shard) { set_->arrivals->await(shard, stop_); }

private:
    const DataSet* set_;
    std::atomic<bool> stop_{false};
};

/// Through mmap(2); `set` must outlive it.
std::unique_ptr<RowSource> make_mapped_source(const DataSet& set);
/// Through reads that are queued, `direct` past the page cache where the file system takes it.
std::unique_ptr<RowSource> make_queued_source(const DataSet& set, bool direct);

}  // namespace autolaunch::data
