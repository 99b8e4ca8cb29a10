#pragma once
// The group of one rank: every collective is a copy.
#include "comm/abort_state.hpp"
#include "comm/backend.hpp"

namespace autolaunch {

/// Nothing blocks. send and recv have no peer to name, so Communicator rejects them.
class SelfBackend final : public CommunicatorBackend {
public:
    std::string_view name() const noexcept override { return "self"; }
    int rank() const noexcept override { return 0; }
    int size() const noexcept override { return 1; }
    DeviceType device_type() const noexcept override { return DeviceType::cpu; }

    Work all_reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op, Stream) override;
    Work all_gather(const void* send, void* recv, std::size_t send_count, DataType type, Stream) override;
    Work reduce_scatter(const void* send, void* recv, std::size_t recv_count, DataType type, ReduceOp op,
                        Stream) override;
    Work broadcast(void* buffer, std::size_t count, DataType type, int root, Stream) override;
    Work all_to_all(const void* send, void* recv, std::size_t count_per_rank, DataType type, Stream) override;
    Work send(const void* buffer, std::size_t count, DataType type, int peer, Stream) override;
    Work recv(void* buffer, std::size_t count, DataType type, int peer, Stream) override;
    void barrier() override;
    std::shared_ptr<CommunicatorBackend> split(int color, int key) override;
    void abort(const std::string& reason) override;
    CommunicatorStatus status() const override;

private:
    Work copy(const void* send, void* recv, std::size_t count, DataType type);

    AbortState abort_state_;
};

}  // namespace autolaunch
