#pragma once
#include "fsdp/lane.hpp"

#include <exception>
#include <memory>
#include <mutex>
#include <optional>

namespace autolaunch::fsdp {

/// A lane of the CPU: a CpuQueue where calls shall overlap; otherwise calls are done when submit()
/// returns. Fences given to submit() are past: what the trainer's thread did is done.
class ThreadLane final : public Lane {
public:
    ThreadLane(std::vector<Communicator> communicators, bool queued);
    ~ThreadLane() override;

    Fence submit(const std::string& unit, std::string_view subject, Job job,
                 std::span<const Fence> after) override;
    Fence latest() const override { return {last_, nullptr}; }
    void check() override;
    void synchronize() override;
    bool is_beside() const noexcept override { return queue_.has_value(); }

private:
    Work last_;
    std::mutex mutex_;               // of failure_
    std::exception_ptr failure_;     // the first
    std::optional<CpuQueue> queue_;  // last: its thread uses the others
};

}  // namespace autolaunch::fsdp
