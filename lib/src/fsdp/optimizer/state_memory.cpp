#include "fsdp/optimizer/state_memory.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace autolaunch::fsdp {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLargePage = std::size_t{2} << 20;

}  // namespace

StateMemory::StateMemory(std::size_t elements) {
    const std::size_t bytes = (elements * sizeof(float) + kPage - 1) / kPage * kPage;
    const bool large = bytes >= kLargePage;
    // Not aligned_alloc(): the standard wants its size to be a multiple of the alignment.
    void* memory = nullptr;
    if (::posix_memalign(&memory, large ? kLargePage : kPage, bytes + (bytes == 0 ? kPage : 0)) !=
        0)
        throw std::bad_alloc();
    memory_.reset(static_cast<float*>(memory));
    if (large)
        ::madvise(memory_.get(), bytes, MADV_HUGEPAGE);  // a wish: what it returns does not matter
    std::memset(memory_.get(), 0, bytes);
}

}  // namespace autolaunch::fsdp
