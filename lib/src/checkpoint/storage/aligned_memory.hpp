#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace autolaunch {

/// Page-aligned memory of its own mapping, in huge pages where the kernel has them. Move-only.
class AlignedMemory {
public:
    AlignedMemory() = default;
    /// Throws SystemError. The pages are not there yet: their first use makes them.
    explicit AlignedMemory(std::size_t bytes);
    AlignedMemory(AlignedMemory&& other) noexcept;
    AlignedMemory& operator=(AlignedMemory&& other) noexcept;
    ~AlignedMemory();

    /// Makes all pages now. Blocks for about 0.2 s a GB.
    void populate();
    std::byte* data() const noexcept { return data_; }
    std::size_t bytes() const noexcept { return bytes_; }
    std::span<std::byte> part(std::size_t offset, std::size_t bytes) const noexcept {
        return {data_ + offset, bytes};
    }

private:
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
};

}  // namespace autolaunch
