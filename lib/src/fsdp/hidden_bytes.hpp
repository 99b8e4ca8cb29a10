#pragma once
#include <cstddef>
#include <map>
#include <vector>

namespace autolaunch::fsdp {

/// What hidden memory is full of: in each byte of it, a quiet NaN in f32, bf16, f16 and f64.
inline constexpr unsigned char kHiddenByte = 0xff;

/// Memory that nobody may look at holds NaNs of every float type meanwhile, and its bytes are kept
/// here: who has a pointer from before reads none of the values that happen to be there still.
///
/// Owner: GatherSlots. Threads: one.
class HiddenBytes {
public:
    /// Costs a copy. Where there is no memory for it nothing is hidden.
    void hide(std::byte* memory, std::size_t bytes) noexcept;
    /// The bytes are back, if they were hidden.
    void show(std::byte* memory) noexcept;
    /// They are wanted no more; the memory stays as it is.
    void forget(const std::byte* memory) noexcept;

private:
    std::map<const std::byte*, std::vector<std::byte>> hidden_;
};

}  // namespace autolaunch::fsdp
