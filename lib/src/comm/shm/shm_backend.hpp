#pragma once
// Collectives between the ranks of one node, through shared memory (docs/adr/0002-shared-memory-communicator.md).
#include "comm/backend.hpp"
#include "comm/shm/peers.hpp"
#include "comm/shm/segment.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace autolaunch {

/// How the ranks of a new group learn where rank 0's memory is: one short text, from rank 0 to all others. An empty
/// text is never published. fetch() waits at most `timeout`.
struct ShmRendezvous {
    std::function<void(const std::string& address)> publish;
    std::function<std::string(std::chrono::milliseconds timeout)> fetch;
};

/// Every rank copies what others need into its own slot, reduces its slice of all slots, and copies the others' results
/// out: each byte crosses memory a fixed number of times, whatever the number of ranks. Sums are taken in rank order by
/// one rank and copied by the others, so all ranks have the same bits.
///
/// send() returns when the message is in the channel to the peer; up to 256 KiB fit without a recv(), more block.
class ShmBackend final : public CommunicatorBackend {
public:
    /// Collective over `size` ranks. Blocks until all are attached, at most `timeout`.
    static std::shared_ptr<ShmBackend> create(const ShmRendezvous& rendezvous, int rank, int size,
                                              std::chrono::milliseconds timeout);
    ShmBackend(shm::Segment segment, int rank, int size, std::chrono::milliseconds timeout);

    std::string_view name() const noexcept override { return "shm"; }
    int rank() const noexcept override { return rank_; }
    int size() const noexcept override { return size_; }
    DeviceType device_type() const noexcept override { return DeviceType::cpu; }

    Work start(const CollectiveCall& call, Stream) override;
    Work start_group(std::span<const CollectiveCall> calls, Stream) override;
    void barrier() override;
    std::shared_ptr<CommunicatorBackend> split(int color, int key) override;
    void abort(const std::string& reason) override;
    CommunicatorStatus status() const override;

private:
    Work all_reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op);
    Work all_gather(const void* send, void* recv, std::size_t send_count, DataType type);
    Work reduce_scatter(const void* send, void* recv, std::size_t recv_count, DataType type, ReduceOp op);
    Work broadcast(void* buffer, std::size_t count, DataType type, int root);
    Work all_to_all(const void* send, void* recv, std::size_t count_per_rank, DataType type);
    Work send(const void* buffer, std::size_t count, DataType type, int peer);
    Work recv(void* buffer, std::size_t count, DataType type, int peer);

    struct Collective;  // one call: its descriptor, deadline and first piece

    Collective begin(const char* name, shm::Kind kind, std::size_t count, DataType type, ReduceOp op, int root);
    std::byte* open_piece(const Collective& collective, std::uint64_t piece);
    void publish_filled(std::uint64_t piece);
    void publish_done(std::uint64_t piece);
    void await_filled(const Collective& collective, int peer, std::uint64_t piece);
    void await_reduced(const Collective& collective, int peer, std::uint64_t piece);
    void check_same(const Collective& collective, int peer, std::uint64_t piece);
    int neighbour(int distance) const noexcept { return (rank_ + distance) % size_; }
    std::size_t region_elements(DataType type) const noexcept;

    void all_reduce_small(const Collective& collective, const std::byte* send, std::byte* recv);
    void all_reduce_large(const Collective& collective, const std::byte* send, std::byte* recv);
    void fill_slices(const Collective& collective, std::uint64_t piece, const std::byte* send, std::size_t count);
    void reduce_slice(const Collective& collective, std::uint64_t piece, const std::byte* send, std::byte* recv,
                      std::size_t count);
    void collect_slices(const Collective& collective, std::uint64_t piece, std::byte* recv, std::size_t count);
    void gather_bytes(const Collective& collective, const std::byte* send, std::byte* recv, std::size_t bytes);

    shm::Segment segment_;
    int rank_;
    int size_;
    std::chrono::milliseconds timeout_;
    shm::Peers peers_;
    std::uint64_t next_piece_ = 0;
    std::uint64_t history_ = 0;
    std::vector<const void*> inputs_;  // by rank, reused by every reduction
};

}  // namespace autolaunch
