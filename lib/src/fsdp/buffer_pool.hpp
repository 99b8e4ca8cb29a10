#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

namespace autolaunch::fsdp {

/// Memory that starts on a page (4 KiB), so that an arena can be registered with a network or written with O_DIRECT.
class AlignedBuffer {
public:
    static constexpr std::size_t kAlignment = 4096;

    AlignedBuffer() = default;
    /// Uninitialised; the size is rounded up to whole pages.
    explicit AlignedBuffer(std::size_t bytes);

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

/// Buffers of one size that are lent and given back: the units' gathered parameters and whole gradients. After the
/// first step every request is served from those given back, so a step allocates nothing.
///
/// Owner: the model's engine. Threads: one. Blocks: never.
class BufferPool {
public:
    /// At most this many idle buffers are kept: a gathered unit and its gradient, and the same for an embedding that
    /// is used at both ends of the model.
    static constexpr std::size_t kMaxIdle = 4;

    void set_buffer_bytes(std::size_t bytes) { buffer_bytes_ = bytes; }
    AlignedBuffer take();
    void give_back(AlignedBuffer buffer) noexcept;
    /// Buffers allocated since the start; for tests.
    std::size_t allocation_count() const noexcept { return allocation_count_; }

private:
    std::size_t buffer_bytes_ = 0;
    std::size_t allocation_count_ = 0;
    std::vector<AlignedBuffer> idle_;
};

}  // namespace autolaunch::fsdp
