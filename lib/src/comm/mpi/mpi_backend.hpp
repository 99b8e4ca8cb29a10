#pragma once
// Collectives through MPI: for ranks that an MPI launcher started, or autolaunch through PMIx.
#include "comm/backend.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
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
};

/// Every call is a nonblocking MPI operation and a loop that tests it, watches the deadline and listens for aborts, so
/// nothing hangs when a rank does not come. all_reduce leaves the order of reduction to MPI; reduce_scatter, and
/// all_reduce of bf16, which MPI does not know, are an all-to-all and a local reduction in rank order.
///
/// MPI 3 has no way to withdraw a collective: after an abort or a timeout MPI may still write to the buffers of the
/// pending call. Keep them until the process ends, and end it soon. A send() may wait for its recv().
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

private:
    Work all_reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op);
    Work all_gather(const void* send, void* recv, std::size_t send_count, DataType type);
    Work reduce_scatter(const void* send, void* recv, std::size_t recv_count, DataType type, ReduceOp op);
    Work broadcast(void* buffer, std::size_t count, DataType type, int root);
    Work all_to_all(const void* send, void* recv, std::size_t count_per_rank, DataType type);
    Work send(const void* buffer, std::size_t count, DataType type, int peer);
    Work recv(void* buffer, std::size_t count, DataType type, int peer);
    void all_reduce_bf16(const std::byte* send, std::byte* recv, std::size_t count, ReduceOp op);

    std::unique_ptr<mpi::Group> group_;
    MpiOptions options_;
    int exceptions_at_birth_;
    std::vector<std::byte> gathered_;  // the ranks' pieces before a local reduction; kept between calls
};

}  // namespace autolaunch
