#pragma once
// Memory for buffers that every rank of a group can read and write.
#include "comm/shm/layout.hpp"
#include "comm/shm/shared_mapping.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::shm {

/// What one allocate() made: a part for each rank, mapped by all. Every rank keeps its mapping
/// until all have let their parts go, so that a rank that is slow to let go finds the others'
/// parts.
///
/// Owner: the user's buffer and Allocations. Threads: any. Blocks: never.
class Allocation {
public:
    static std::shared_ptr<Allocation> create(int ranks, std::size_t bytes);
    static std::shared_ptr<Allocation> attach(const std::string& address, int ranks,
                                              std::size_t bytes);

    const std::string& address() const noexcept { return mapping_.address(); }
    void close_to_newcomers() noexcept { mapping_.close_to_newcomers(); }
    std::byte* part(int rank) const noexcept;
    std::size_t part_bytes() const noexcept { return part_bytes_; }

    /// This rank takes the pages of its part: they are then on its NUMA node. Throws when there is
    /// no memory for them.
    void take_own(int rank);
    /// Enters the others' parts in this rank's page tables, once all have taken theirs: the first
    /// calls would spend more time in page faults than in moving data.
    void map_others(int rank) noexcept;

    /// This rank's user has let its part go.
    void let_go() noexcept;
    bool all_let_go() const noexcept;

private:
    Allocation(SharedMapping mapping, int ranks, std::size_t part_bytes);
    std::size_t offset_of(int rank) const noexcept;
    std::atomic<std::uint64_t>& gone() const noexcept;

    SharedMapping mapping_;
    int ranks_;
    std::size_t part_bytes_;
};

/// The allocations of one group, by number, and who is where in them.
///
/// Owner: the backend. Threads: one.
class Allocations {
public:
    explicit Allocations(int rank) : rank_(rank) {}

    /// All ranks add the same allocations in the same order.
    void add(std::shared_ptr<Allocation> allocation);
    /// Whether nothing was ever added: the same answer on all ranks.
    bool unused() const noexcept { return last_number_ == 0; }
    /// Unmaps what every rank has let go.
    void sweep();

    Location find(const void* data, std::size_t bytes) const noexcept;
    /// Where this rank sees a buffer of `rank`'s; null when it is elsewhere.
    std::byte* at(int rank, const Location& location) const noexcept;

private:
    struct Numbered {
        std::uint32_t number;
        std::shared_ptr<Allocation> allocation;
    };

    int rank_;
    std::uint32_t last_number_ = 0;
    std::vector<Numbered> live_;
};

}  // namespace autolaunch::shm
