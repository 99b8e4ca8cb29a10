#include "comm/nccl/host_staging.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

namespace autolaunch {

namespace {

// What a GPU may still write to is kept for good, where a search for leaks finds it.
struct KeptForGood {
    std::shared_ptr<void> memory;
    KeptForGood* next;
};
std::atomic<KeptForGood*> kept_for_good{nullptr};

}  // namespace

std::byte* HostStaging::take(std::size_t bytes) {
    if (used_ == memory_.size()) {
        memory_.emplace_back();
        bytes_.push_back(0);
    }
    const std::size_t piece = used_++;
    if (bytes_[piece] < bytes) {
        memory_[piece] = nullptr;
        bytes_[piece] = 0;
        memory_[piece] = device_->allocate(std::max<std::size_t>(bytes, 4096));
        bytes_[piece] = std::max<std::size_t>(bytes, 4096);
    }
    return static_cast<std::byte*>(memory_[piece].get());
}

std::vector<CollectiveCall> HostStaging::copy_in(std::span<const CollectiveCall> calls, int rank,
                                                 CUstream stream) {
    used_ = 0;
    std::vector<CollectiveCall> staged(calls.begin(), calls.end());
    for (CollectiveCall& call : staged) {
        const BufferExtents extents = extents_of(call, rank);
        const std::size_t send_bytes = extents.send * call.element_bytes();
        const std::size_t recv_bytes = extents.recv * call.element_bytes();
        const bool stages_send = send_bytes != 0 && !device_->is_device_memory(call.send);
        const bool stages_recv = recv_bytes != 0 && !device_->is_device_memory(call.recv);
        // In place on the host is apart on the GPU: what is received goes back over what was sent.
        if (stages_send) {
            std::byte* copy = take(send_bytes);
            device_->copy(copy, call.send, send_bytes, stream);
            call.send = copy;
        }
        if (stages_recv) {
            std::byte* copy = take(recv_bytes);
            if (call.kind == CollectiveKind::broadcast && rank == call.root)
                device_->copy(copy, call.recv, recv_bytes, stream);
            call.recv = copy;
        }
    }
    return staged;
}

void HostStaging::copy_out(std::span<const CollectiveCall> calls,
                           std::span<const CollectiveCall> staged, int rank, CUstream stream) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
        if (calls[i].recv == staged[i].recv)
            continue;
        const std::size_t bytes = extents_of(calls[i], rank).recv * calls[i].element_bytes();
        device_->copy(calls[i].recv, staged[i].recv, bytes, stream);
    }
}

void HostStaging::free_large() noexcept {
    constexpr std::size_t kKept = std::size_t{16} << 20;  // each
    for (std::size_t piece = 0; piece < memory_.size(); ++piece) {
        if (bytes_[piece] <= kKept)
            continue;
        memory_[piece] = nullptr;
        bytes_[piece] = 0;
    }
}

void HostStaging::abandon() noexcept {
    for (auto& piece : memory_) {
        auto* const kept = new KeptForGood{std::move(piece), kept_for_good.load()};
        while (!kept_for_good.compare_exchange_weak(kept->next, kept)) {
        }
    }
}

}  // namespace autolaunch
