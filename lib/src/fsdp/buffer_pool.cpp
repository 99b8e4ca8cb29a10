#include "fsdp/buffer_pool.hpp"

#include <new>
#include <utility>

namespace autolaunch::fsdp {

AlignedBuffer::AlignedBuffer(std::size_t bytes) : bytes_((bytes + kAlignment - 1) / kAlignment * kAlignment) {
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes_)));
    if (!memory_) throw std::bad_alloc();
}

AlignedBuffer BufferPool::take() {
    if (idle_.empty()) {
        idle_.reserve(kMaxIdle);  // so that give_back() cannot fail
        ++allocation_count_;
        return AlignedBuffer(buffer_bytes_);
    }
    AlignedBuffer buffer = std::move(idle_.back());
    idle_.pop_back();
    return buffer;
}

void BufferPool::give_back(AlignedBuffer buffer) noexcept {
    if (idle_.size() < kMaxIdle) idle_.push_back(std::move(buffer));
}

}  // namespace autolaunch::fsdp
