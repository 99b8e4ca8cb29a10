// allocate() on the shm backend: rank 0 makes memory with a part for every rank, and all map it.
#include "comm/shm/allocations.hpp"
#include "comm/shm/shm_backend.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <vector>

namespace autolaunch {
namespace {

/// What a rank says before and after it has the memory. A rank that fails says so: leaving would
/// leave the others waiting.
struct Report {
    std::uint64_t bytes;
    char address[120];  // of rank 0's memory
    char failure[120];
};

}  // namespace

std::shared_ptr<void> ShmBackend::allocate(std::size_t bytes) {
    allocations_.sweep();
    Report own{};
    own.bytes = bytes;
    std::shared_ptr<shm::Allocation> allocation;
    const auto attempt = [&](const auto& make) {
        try {
            allocation = make();
        } catch (const std::exception& error) {
            shm::write_text(own.failure, error.what());
        }
    };
    std::vector<Report> reports(static_cast<std::size_t>(size_));
    const auto tell = [&] { exchange(shm::Kind::allocate, &own, reports.data(), sizeof own); };
    if (rank_ == 0)
        attempt([&] { return shm::Allocation::create(size_, bytes); });
    if (allocation)
        shm::write_text(own.address, allocation->address());
    tell();
    for (int peer = 0; peer < size_; ++peer) {
        const std::uint64_t theirs = reports[static_cast<std::size_t>(peer)].bytes;
        if (theirs != bytes) {
            pieces_.fail_mismatch(fmt::format("rank {} calls allocate of {} bytes, rank {} of {}",
                                              rank_, bytes, peer, theirs));
        }
    }
    if (rank_ != 0 && reports[0].failure[0] == '\0')
        attempt([&] { return shm::Allocation::attach(reports[0].address, size_, bytes); });
    if (allocation) {
        attempt([&] {
            allocation->take_own(rank_);
            return allocation;
        });
    }
    tell();
    for (int peer = 0; peer < size_; ++peer) {
        const Report& report = reports[static_cast<std::size_t>(peer)];
        if (report.failure[0] == '\0')
            continue;
        throw Error(
            ErrorCode::system,
            fmt::format("allocate: rank {} cannot have {} bytes: {}", peer, bytes, report.failure),
            "ask for less, or raise the node's memory limit");
    }
    allocation->close_to_newcomers();
    allocation->map_others(rank_);
    allocations_.add(allocation);
    return {allocation->part(rank_), [allocation](void*) { allocation->let_go(); }};
}

}  // namespace autolaunch
