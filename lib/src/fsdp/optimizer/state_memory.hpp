#pragma once
#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace autolaunch::fsdp {

/// An optimizer's state of one shard: zeros at first, in large pages where the kernel gives them,
/// because an update goes through several such arrays at once.
class AUTOLAUNCH_API StateMemory {
public:
    explicit StateMemory(std::size_t elements);

    float* floats() const noexcept { return memory_.get(); }
    std::byte* data() const noexcept { return reinterpret_cast<std::byte*>(memory_.get()); }

private:
    struct Free {
        void operator()(float* memory) const noexcept { std::free(memory); }
    };
    std::unique_ptr<float, Free> memory_;
};

}  // namespace autolaunch::fsdp
