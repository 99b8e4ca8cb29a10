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
class Group;
}

struct MpiOptions {
    std::chrono::milliseconds timeout{600'000};
    /// MPI counts in int: longer buffers go in pieces of this many elements. Tests make it small.
    std::size_t piece_elements = std::size_t{1} << 28;
    /// No reduction is left to MPI: each is an exchange of the inputs and a reduction in pairs over the ranks.
    bool fixed_order = false;
};

/// Every call is one or several nonblocking MPI operations and a loop that tests them, watches the deadline and listens
/// for aborts, so nothing hangs when a rank does not come.
///
/// MPI reduces where it can and may: all_reduce and reduce of f32, f64 and integers, in an order of its own. All other
/// reductions (halves, reduce_scatter, and everything with fixed_order) are ours: ranks exchange slices, and each
/// reduces one, pairwise over the ranks. Ragged blocks, all_to_all, send and recv are point-to-point messages.
///
/// MPI 3 has no way to withdraw a collective: after an abort or a timeout MPI may still write to the buffers of the
/// pending call. Short calls (8 KiB) go through memory of the backend's own, which lasts; keep longer buffers until the
/// process ends, and end it soon. A send() may wait for its recv().
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
    /// A part of a buffer on its way to or from a peer.
    struct Message {
        std::byte* data;
        std::size_t bytes;
        int peer;
        DataType type = DataType::u8;
    };
    class Exchange;  // messages side by side

    // mpi_moves.cpp
    void broadcast(const CollectiveCall& call);
    void all_gather(const CollectiveCall& call);
    void all_to_all(const CollectiveCall& call);
    void gather(const CollectiveCall& call);
    void scatter(const CollectiveCall& call);
    void send_and_receive(std::span<const CollectiveCall> calls);

    // mpi_reductions.cpp
    void all_reduce(const CollectiveCall& call);
    void reduce(const CollectiveCall& call);
    void reduce_scatter(const CollectiveCall& call);
    bool left_to_mpi(const CollectiveCall& call) const;
    void reduce_by_mpi(const CollectiveCall& call);
    void reduce_everywhere(const CollectiveCall& call, bool is_wanted);
    void reduce_blocks(const std::byte* send, std::byte* recv, const BlockCounts& blocks, const CollectiveCall& call);
    std::span<const double> factors_of(const CollectiveCall& call);
    void run(const CollectiveCall& call);
    void run_bounced(const CollectiveCall& call, const BufferExtents& extents);
    /// `bytes` of memory that lasts until the next call.
    std::byte* scratch(std::size_t bytes);

    std::unique_ptr<mpi::Group> group_;
    MpiOptions options_;
    int exceptions_at_birth_;
    const char* calling_ = "";  // what the user called, for errors
    /// What MPI may write to after an abort, but for the callers' own buffers.
    struct Memory {
        std::vector<std::byte> scratch, slice, bounced;
        std::vector<double> factors;
    };
    std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
};

}  // namespace autolaunch
