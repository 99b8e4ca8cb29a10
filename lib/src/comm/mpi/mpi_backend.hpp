#pragma once
// Collectives through MPI: for ranks that an MPI launcher started, or autolaunch through PMIx.
#include "comm/backend.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace autolaunch {

namespace mpi {
class Exchange;
class Group;
}  // namespace mpi

struct MpiOptions {
    std::chrono::milliseconds timeout{600'000};
    /// MPI counts in int: longer messages go in pieces. Tests make it small.
    std::size_t piece_bytes = std::size_t{1} << 30;
};

/// Every call is made of nonblocking messages and a loop that tests them, watches the deadline and
/// listens for aborts, so nothing hangs when a rank does not come. MPI's own collectives are not
/// used: their nonblocking forms cost Open MPI several microseconds a call and cannot be withdrawn,
/// the blocking ones know no deadline, and their sums have an order of their own. Reductions are
/// pairwise over the ranks, ((0 + 1) + (2 + 3)) + …, whatever their length.
///
/// After an abort or a timeout receives are withdrawn. MPI may still read what was to be sent, and
/// write to the buffer of a message of which a part had come (with Open MPI one of more than 4
/// KiB): keep such buffers until the process ends, and end it soon. A send() may wait for its
/// recv().
class MpiBackend final : public CommunicatorBackend {
public:
    /// Over MPI_COMM_WORLD. Collective.
    static std::shared_ptr<MpiBackend> world(const MpiOptions& options);
    MpiBackend(std::unique_ptr<mpi::Group> group, const MpiOptions& options);
    ~MpiBackend() override;

    std::string_view name() const noexcept override { return "mpi"; }
    int rank() const noexcept override;
    int size() const noexcept override;
    DeviceType device_type() const noexcept override { return DeviceType::cpu; }

    Work start(const CollectiveCall& call, Stream) override;
    Work start_group(std::span<const CollectiveCall> calls, Stream) override;
    void barrier() override;
    std::shared_ptr<CommunicatorBackend> split(int color, int key) override;
    void abort(const std::string& reason) override;
    CommunicatorStatus status() const override;
    std::string abort_reason() const override;

private:
    // mpi_moves.cpp
    void broadcast(const CollectiveCall& call);
    void broadcast_by_tree(std::byte* data, std::size_t bytes, int root);
    void all_gather(const CollectiveCall& call);
    void all_to_all(const CollectiveCall& call);
    void gather(const CollectiveCall& call);
    void scatter(const CollectiveCall& call);
    void send_and_receive(std::span<const CollectiveCall> calls);

    // mpi_reductions.cpp
    void all_reduce(const CollectiveCall& call);
    void all_reduce_by_doubling(const CollectiveCall& call);
    void reduce(const CollectiveCall& call);
    void reduce_by_tree(const CollectiveCall& call);
    void reduce_scatter(const CollectiveCall& call);
    void reduce_blocks(const std::byte* send, std::byte* recv, const BlockCounts& blocks,
                       const CollectiveCall& call);
    std::span<const double> factors_of(const CollectiveCall& call);
    void run(const CollectiveCall& call);
    /// So many ranks on, around the circle.
    int rank_ahead(int distance) const noexcept { return (rank() + distance) % size(); }
    int rank_behind(int distance) const noexcept { return (rank() + size() - distance) % size(); }
    /// `bytes` of memory that lasts until the next call.
    std::byte* scratch(std::size_t bytes);

    std::unique_ptr<mpi::Group> group_;
    std::unique_ptr<mpi::Exchange> exchange_;
    MpiOptions options_;
    int exceptions_at_birth_;
    const char* calling_ = "";         // what the user called, for errors
    std::vector<const void*> inputs_;  // of a reduction, by rank
    /// What MPI may touch after an abort, but for the callers' own buffers.
    struct Memory {
        std::vector<std::byte> scratch, slice;
        std::vector<double> factors;
    };
    std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
};

}  // namespace autolaunch
