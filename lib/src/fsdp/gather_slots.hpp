#pragma once
#include "fsdp/hidden_bytes.hpp"

#include <autolaunch/comm/communicator.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace autolaunch::fsdp {

/// The persistent memory that buckets are gathered into, and which buckets stay in it: the last
/// ones that were used, as many as there are slots. What stays depends on the order of use alone,
/// never on when scopes end, because all ranks must gather the same buckets; a bucket that must go
/// while it is in use keeps its memory until it is let go, and another buffer is allocated.
///
///     bucket    keep()          another's keep()      let_go()        clear()
///     away      gets memory
///     kept      is the newest   the oldest leaves     stays           leaves
///     leaves    = away; its memory is free, or is when it is let go
///
/// Owner: the gatherer. Threads: one. Blocks: never.
class GatherSlots {
public:
    using Allocate = std::function<CommunicatorBuffer(std::size_t bytes)>;

    GatherSlots() = default;
    /// Slots of `bytes` each, in the caller's memory; `allocate` is for more. With `hide`, which
    /// memory of a GPU cannot be, what is not in use holds NaNs.
    GatherSlots(std::vector<std::byte*> memory, std::size_t bytes, Allocate allocate,
                bool hide = false);

    bool is_kept(std::size_t bucket) const noexcept;
    /// Where the bucket is; null when it is away.
    std::byte* memory_of(std::size_t bucket) const noexcept;
    /// Makes it the newest; true when it was away: it must be gathered now.
    bool keep(std::size_t bucket);
    /// From hold() on the bucket is in use, until let_go().
    void hold(std::size_t bucket);
    void let_go(std::size_t bucket) noexcept;
    /// Nothing is kept any more: the parameters changed.
    void clear() noexcept;

    /// Bytes of buffers that were allocated because all slots were in use.
    std::size_t extra_bytes() const noexcept { return extra_.size() * slot_bytes_; }

private:
    struct Place {
        std::byte* memory = nullptr;
        bool in_use = false;
    };
    Place& place(std::size_t bucket);
    void leave(std::size_t bucket) noexcept;

    bool hides_ = false;
    HiddenBytes hidden_;
    std::size_t capacity_ = 0;
    std::size_t slot_bytes_ = 0;
    std::vector<std::byte*> free_;
    Allocate allocate_;
    std::vector<CommunicatorBuffer> extra_;
    std::vector<std::size_t> kept_;  // newest last
    std::vector<Place> places_;      // by bucket
};

}  // namespace autolaunch::fsdp
