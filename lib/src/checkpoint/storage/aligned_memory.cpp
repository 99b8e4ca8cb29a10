#include "checkpoint/storage/aligned_memory.hpp"

#include <autolaunch/error.hpp>

#include <sys/mman.h>

#include <cerrno>
#include <string>
#include <utility>

namespace autolaunch {

namespace {
constexpr std::size_t kHugePage = 2 << 20;
constexpr std::size_t kPage = 4096;
}  // namespace

AlignedMemory::AlignedMemory(std::size_t bytes) : bytes_(bytes) {
    if (bytes == 0)
        return;
    // Huge pages lie on their own size, so that much more is mapped and what sticks out is given
    // back.
    const std::size_t needed = (bytes + kHugePage - 1) / kHugePage * kHugePage,
                      mapped = needed + kHugePage;
    void* memory =
        ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw SystemError(errno, "map " + std::to_string(bytes) + " bytes of memory");
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    const std::size_t before = (kHugePage - address % kHugePage) % kHugePage;
    data_ = static_cast<std::byte*>(memory) + before;
    bytes_ = needed;
    if (before > 0)
        ::munmap(memory, before);
    if (before < kHugePage)
        ::munmap(data_ + needed, kHugePage - before);
    ::madvise(data_, needed, MADV_HUGEPAGE);
}

AlignedMemory::AlignedMemory(AlignedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

AlignedMemory& AlignedMemory::operator=(AlignedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

AlignedMemory::~AlignedMemory() {
    if (data_)
        ::munmap(data_, bytes_);
}

void AlignedMemory::populate() {
#ifdef MADV_POPULATE_WRITE
    if (data_ && ::madvise(data_, bytes_, MADV_POPULATE_WRITE) == 0)
        return;
#endif
    for (std::size_t at = 0; at < bytes_; at += kPage)
        data_[at] = std::byte{0};
}

}  // namespace autolaunch
