#pragma once
// The memory that the ranks of one node share, and how they find it.
#include "base/unique_fd.hpp"
#include "comm/shm/layout.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace autolaunch::shm {

/// One mapping of the segment.
///
/// The memory is a memfd: it never has a name in a file system, so there is nothing to leak, whenever a rank is killed,
/// and the size of /dev/shm does not matter. Rank 0 creates it and publishes "<pid> <descriptor> <token>"; the others
/// open /proc/<pid>/fd/<descriptor> and check the token. That needs one user and one PID namespace.
///
/// Owner: the backend. Threads: any. Blocks: never.
class Segment {
public:
    /// `pids`, when given, holds the members' process numbers, so that a rank that dies before it attaches is noticed.
    static Segment create(int size, std::span<const int> pids = {});
    /// Throws Error{closed} when the creator is gone, SystemError when its descriptors may not be opened.
    static Segment attach(const std::string& address, int size);

    Segment(Segment&& other) noexcept;
    Segment& operator=(Segment&&) = delete;
    ~Segment();

    const std::string& address() const noexcept { return address_; }
    /// Closes the creator's descriptor: from then on nobody can attach.
    void close_to_newcomers() noexcept { fd_.reset(); }

    Header& header() const noexcept { return *reinterpret_cast<Header*>(base_); }
    RankState& rank_state(int rank) const noexcept;
    Channel& channel(int from, int to) const noexcept;
    std::byte* slot(int rank, std::uint64_t piece) const noexcept;
    std::byte* channel_chunk(int from, int to, std::uint64_t chunk) const noexcept;

private:
    Segment(UniqueFd fd, int size, std::string address);

    Layout layout_;
    UniqueFd fd_;
    std::string address_;
    std::byte* base_ = nullptr;
};

}  // namespace autolaunch::shm
