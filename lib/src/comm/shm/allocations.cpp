#include "comm/shm/allocations.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <utility>

namespace autolaunch::shm {
namespace {

// Page tables take 1/512 of what they map, in every rank: beyond 32 MiB of them, they grow with
// what is used.
constexpr std::size_t kMappedAhead = std::size_t(16) << 30;

// Parts begin on huge pages when they are long enough to have some.
std::size_t quantum_of(std::size_t bytes) {
    return bytes >= SharedMapping::kHugePage ? SharedMapping::kHugePage : kPage;
}

std::size_t stride_of(std::size_t bytes) {
    const std::size_t quantum = quantum_of(bytes);
    return bytes == 0 ? quantum : (bytes + quantum - 1) / quantum * quantum;
}

// Before the parts: the token, and how many ranks have let go.
std::size_t whole(int ranks, std::size_t bytes) {
    const std::size_t stride = stride_of(bytes), parts = static_cast<std::size_t>(ranks);
    const std::size_t limit = static_cast<std::size_t>(PTRDIFF_MAX) / 2;
    if (stride < bytes || stride > (limit - quantum_of(bytes)) / parts)
        throw std::bad_alloc();
    return quantum_of(bytes) + stride * parts;
}

}  // namespace

Allocation::Allocation(SharedMapping mapping, int ranks, std::size_t part_bytes)
    : mapping_(std::move(mapping)), ranks_(ranks), part_bytes_(part_bytes) {
    if (part_bytes_ >= SharedMapping::kHugePage)
        mapping_.advise_huge_pages(quantum_of(part_bytes_));
}

std::shared_ptr<Allocation> Allocation::create(int ranks, std::size_t bytes) {
    auto mapping = SharedMapping::create("autolaunch-buffers", whole(ranks, bytes));
    return std::shared_ptr<Allocation>(new Allocation(std::move(mapping), ranks, stride_of(bytes)));
}

std::shared_ptr<Allocation> Allocation::attach(const std::string& address, int ranks,
                                               std::size_t bytes) {
    std::optional<SharedMapping> mapping = SharedMapping::attach(address, whole(ranks, bytes));
    if (!mapping)
        throw Error(ErrorCode::closed, "rank 0 went away before all ranks had its shared memory");
    return std::shared_ptr<Allocation>(
        new Allocation(std::move(*mapping), ranks, stride_of(bytes)));
}

std::size_t Allocation::offset_of(int rank) const noexcept {
    return quantum_of(part_bytes_) + static_cast<std::size_t>(rank) * part_bytes_;
}

std::byte* Allocation::part(int rank) const noexcept { return mapping_.data() + offset_of(rank); }

void Allocation::take_own(int rank) {
    if (!mapping_.take_pages(offset_of(rank), part_bytes_))
        throw SystemError(errno, fmt::format("take {} bytes of shared memory", part_bytes_));
}

void Allocation::map_others(int rank) noexcept {
    const std::size_t each =
        std::min(part_bytes_, kMappedAhead / static_cast<std::size_t>(ranks_) / kPage * kPage);
    for (int peer = 0; peer < ranks_; ++peer) {
        if (peer != rank)
            mapping_.map_pages(offset_of(peer), each);
    }
}

std::atomic<std::uint64_t>& Allocation::gone() const noexcept {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(mapping_.data() +
                                                          SharedMapping::kTokenBytes);
}

void Allocation::let_go() noexcept { gone().fetch_add(1, std::memory_order_acq_rel); }

bool Allocation::all_let_go() const noexcept {
    return gone().load(std::memory_order_acquire) == static_cast<std::uint64_t>(ranks_);
}

void Allocations::add(std::shared_ptr<Allocation> allocation) {
    live_.push_back({++last_number_, std::move(allocation)});
}

void Allocations::sweep() {
    if (live_.empty())
        return;
    std::erase_if(live_, [](const Numbered& one) { return one.allocation->all_let_go(); });
}

Location Allocations::find(const void* data, std::size_t bytes) const noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    for (const Numbered& one : live_) {
        const auto part = reinterpret_cast<std::uintptr_t>(one.allocation->part(rank_));
        const std::size_t part_bytes = one.allocation->part_bytes();
        if (begin >= part && begin - part <= part_bytes && bytes <= part_bytes - (begin - part))
            return {one.number, begin - part};
    }
    return {};
}

std::byte* Allocations::at(int rank, const Location& location) const noexcept {
    for (const Numbered& one : live_) {
        if (one.number == location.allocation)
            return one.allocation->part(rank) + location.offset;
    }
    return nullptr;
}

}  // namespace autolaunch::shm
