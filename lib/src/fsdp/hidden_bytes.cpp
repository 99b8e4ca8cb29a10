#include "fsdp/hidden_bytes.hpp"

#include <algorithm>
#include <new>

namespace autolaunch::fsdp {

void HiddenBytes::hide(std::byte* memory, std::size_t bytes) noexcept {
    try {
        hidden_[memory].assign(memory, memory + bytes);
    } catch (const std::bad_alloc&) {
        hidden_.erase(memory);
        return;
    }
    std::fill_n(memory, bytes, std::byte{kHiddenByte});
}

void HiddenBytes::show(std::byte* memory) noexcept {
    const auto found = hidden_.find(memory);
    if (found == hidden_.end())
        return;
    std::copy(found->second.begin(), found->second.end(), memory);
    hidden_.erase(found);
}

void HiddenBytes::forget(const std::byte* memory) noexcept { hidden_.erase(memory); }

}  // namespace autolaunch::fsdp
