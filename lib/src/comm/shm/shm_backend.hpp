#pragma once
// Collectives between the ranks of one node, through shared memory
// (docs/adr/0002-shared-memory-communicator.md).
#include "comm/backend.hpp"
#include "comm/shm/allocations.hpp"
#include "comm/shm/peers.hpp"
#include "comm/shm/pieces.hpp"
#include "comm/shm/segment.hpp"

#include <chrono>
#include <functional>
#include <span>
#include <string>

namespace autolaunch {

/// Has `abort` called when the ranks are waited for in vain, as long as the result lives.
using AbortGuard =
    std::function<std::shared_ptr<void>(std::function<void(const std::string& reason)> abort)>;

/// How the ranks of a new group learn where rank 0's memory is: one short text, from rank 0 to all
/// others. An empty text is never published. fetch() waits at most `timeout`.
struct ShmRendezvous {
    std::function<void(const std::string& address)> publish;
    std::function<std::string(std::chrono::milliseconds timeout)> fetch;
    AbortGuard guard = {};  ///< while this group and those that are made of it are created
};

/// Buffers from allocate() are read and written by all ranks where they are. Other data go through
/// the ranks' entries and slots: every rank copies what others need into its own, reduces its slice
/// of all, and copies the others' results out. Sums are taken in rank order, so all ranks have the
/// same bits. Ranks may be processes or threads.
///
/// send() returns when the message is in the channel to the peer; up to 256 KiB fit without a
/// recv(), more block.
class ShmBackend final : public CommunicatorBackend {
public:
    /// Collective over `size` ranks. Blocks until all are attached, at most `timeout`.
    static std::shared_ptr<ShmBackend> create(const ShmRendezvous& rendezvous, int rank, int size,
                                              std::chrono::milliseconds timeout);
    ShmBackend(shm::Segment segment, int rank, int size, std::chrono::milliseconds timeout,
               AbortGuard guard = {});

    std::string_view name() const noexcept override { return "shm"; }
    int rank() const noexcept override { return rank_; }
    int size() const noexcept override { return size_; }
    DeviceType device_type() const noexcept override { return DeviceType::cpu; }

    Work start(const CollectiveCall& call, Stream) override;
    Work start_group(std::span<const CollectiveCall> calls, Stream) override;
    void barrier() override;
    std::shared_ptr<void> allocate(std::size_t bytes) override;
    std::shared_ptr<CommunicatorBackend> split(int color, int key) override;
    void abort(const std::string& reason) override;
    /// Works again when a survivor was lost during it: with that one in the list.
    std::shared_ptr<CommunicatorBackend> shrink(std::span<const int> lost) override;
    CommunicatorStatus status() const override;

private:
    class Shrinking;

    void run(const CollectiveCall& call);
    /// All ranks' `bytes` bytes at `own`, in rank order, to `all`: a part of a split or an
    /// allocate.
    void exchange(shm::Kind kind, const void* own, void* all, std::size_t bytes);

    shm::Segment segment_;
    int rank_;
    int size_;
    std::chrono::milliseconds timeout_;
    shm::Peers peers_;
    shm::Pieces pieces_;
    shm::Allocations allocations_;
    AbortGuard guard_;
    std::uint64_t shrink_attempts_ = 0;
};

}  // namespace autolaunch
