#pragma once
#include "base/memory_file.hpp"
#include "checkpoint/memory/layout.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace autolaunch::memory {

/// What a copy is going to be.
struct CopyPlan {
    SaveName name;
    int shard = 0;
    int world_size = 1;
    std::uint64_t data_bytes = 0;
    std::string text;

    std::uint64_t used_bytes() const {
        return data_offset_for(data_bytes, text.size()) + data_bytes;
    }
};

/// Bytes to be copied.
struct Run {
    const std::byte* data = nullptr;
    std::uint64_t bytes = 0;
};

/// One slot's memory: a copy of a shard that is whole, or none. It is whole from commit() on until
/// the next begin() or begin_receiving(), whenever its writer is killed.
///
/// Owner: MemoryEngine. Threads: one writes. Blocks: never, but for the time that memory takes.
class Slot {
public:
    Slot(const UniqueFd& file, std::uint64_t bytes) : memory_(file, bytes) {}

    std::uint64_t bytes() const { return memory_.bytes(); }
    /// The header of the copy, if there is a whole one by what its writer said: header, digests and
    /// text are verified here, its data by verify_data().
    std::optional<Header> header() const;
    /// False: the data are not what was copied. Reads all of it, with so many threads.
    bool verify_data(const Header& header, int threads = 1) const;
    std::string_view text(const Header& header) const;
    std::span<const std::byte> data(const Header& header) const;

    /// Its copy is not one: it is never looked at again.
    void discard() { uncommit(); }

    /// From here on there is no copy. Then copy() all data, finish(), and commit(). The slot must
    /// have plan.used_bytes().
    void begin(const CopyPlan& plan);
    /// The runs follow each other in the copy. With so many threads, each of which also takes the
    /// digests of what it copies.
    void copy(std::span<const Run> runs, int threads);
    void finish();
    void commit();

    /// The same for a copy that another rank wrote: all bytes of received() but the first
    /// kHeaderOffset come from its sendable(). check_received() says whether it is the copy that is
    /// wanted; then commit().
    void begin_receiving();
    std::span<std::byte> receivable(std::uint64_t used_bytes);
    std::span<const std::byte> sendable(std::uint64_t used_bytes) const;
    bool check_received(const SaveName& name, int shard, std::uint64_t used_bytes) const;

private:
    std::optional<Header> plausible_header() const;
    std::uint64_t commit_word() const;
    void uncommit();

    SharedMapping memory_;
    Header writing_;
    std::string text_;
    bool copied_ = false;
};

}  // namespace autolaunch::memory
