#pragma once
// Any CPU backend, with every call compared between the ranks before it runs:
// CommunicatorOptions::check_calls.
#include "comm/backend.hpp"
#include "comm/call_comparison.hpp"

#include <memory>

namespace autolaunch {

/// A difference aborts the group and throws Error{mismatch} on all ranks; for send and recv on the
/// receiving one. A rank that sends where others call a collective still ends in the timeout: its
/// peer is not there to compare with.
///
/// Owner, threads: as the backend inside. Blocks: as that, and until all ranks have come to the
/// call.
class ComparingBackend final : public CommunicatorBackend {
public:
    explicit ComparingBackend(std::shared_ptr<CommunicatorBackend> inner);

    std::string_view name() const noexcept override { return inner_->name(); }
    int rank() const noexcept override { return inner_->rank(); }
    int size() const noexcept override { return inner_->size(); }
    DeviceType device_type() const noexcept override { return inner_->device_type(); }

    Work start(const CollectiveCall& call, Stream stream) override;
    Work start_group(std::span<const CollectiveCall> calls, Stream stream) override;
    void barrier() override;
    std::shared_ptr<void> allocate(std::size_t bytes) override;
    std::shared_ptr<CommunicatorBackend> split(int color, int key) override;
    void abort(const std::string& reason) override { inner_->abort(reason); }
    std::shared_ptr<CommunicatorBackend> shrink(std::span<const int> lost) override;
    CommunicatorStatus status() const override { return inner_->status(); }
    void check() const override { inner_->check(); }
    std::string abort_reason() const override { return inner_->abort_reason(); }

private:
    template <class What>
    void compare(const What& what);
    void compare_messages(std::span<const CollectiveCall> messages);

    std::shared_ptr<CommunicatorBackend> inner_;
    CallComparison comparison_;
};

}  // namespace autolaunch
