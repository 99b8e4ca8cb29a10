#include "fsdp/optimizer/state_memory.hpp"

#include <sys/mman.h>

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
    memory_.reset(
        static_cast<float*>(std::aligned_alloc(large ? kLargePage : kPage, bytes + (bytes == 0 ? kPage : 0))));
    if (!memory_) throw std::bad_alloc();
    if (large) ::madvise(memory_.get(), bytes, MADV_HUGEPAGE);  // a wish: what it returns does not matter
    std::memset(memory_.get(), 0, bytes);
}

}  // namespace autolaunch::fsdp
