#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>

namespace autolaunch::fsdp {

/// Memory of one rank's own that starts on a page (4 KiB), so that it can be written with O_DIRECT.
class AlignedBuffer {
public:
    static constexpr std::size_t kAlignment = 4096;

    AlignedBuffer() = default;
    /// Uninitialised; the size is rounded up to whole pages.
    explicit AlignedBuffer(std::size_t bytes);
    static AlignedBuffer zeroed(std::size_t bytes);

    float* floats() const noexcept { return reinterpret_cast<float*>(memory_.get()); }
    std::byte* data() const noexcept { return memory_.get(); }
    std::size_t bytes() const noexcept { return bytes_; }
    explicit operator bool() const noexcept { return memory_ != nullptr; }

private:
    struct Free {
        void operator()(std::byte* memory) const noexcept { std::free(memory); }
    };
    std::unique_ptr<std::byte, Free> memory_;
    std::size_t bytes_ = 0;
};

}  // namespace autolaunch::fsdp
