#include "fsdp/aligned_buffer.hpp"

#include <cstring>
#include <new>

namespace autolaunch::fsdp {

AlignedBuffer::AlignedBuffer(std::size_t bytes)
    : bytes_((bytes + kAlignment - 1) / kAlignment * kAlignment) {
    memory_.reset(
        static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes_ == 0 ? kAlignment : bytes_)));
    if (!memory_)
        throw std::bad_alloc();
}

AlignedBuffer AlignedBuffer::zeroed(std::size_t bytes) {
    AlignedBuffer buffer(bytes);
    std::memset(buffer.data(), 0, buffer.bytes());
    return buffer;
}

}  // namespace autolaunch::fsdp
