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

    Work start(const CollectiveCall& call, Stream) override;
    Work start_group(std::span<const CollectiveCall> calls, Stream) override;
    void barrier() override;
    std::shared_ptr<CommunicatorBackend> split(int color, int key) override;
    void abort(const std::string& reason) override;
    std::shared_ptr<CommunicatorBackend> shrink(std::span<const int> lost) override;
    CommunicatorStatus status() const override;

private:
    AbortState abort_state_;
};

}  // namespace autolaunch
