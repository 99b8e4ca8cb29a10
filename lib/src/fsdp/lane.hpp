#pragma once
#include <autolaunch/comm/communicator.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::fsdp {

/// One way for collectives beside the computation: communicators and, where calls shall overlap, the CpuQueue that runs
/// them in order. Without a queue calls are done when submit() returns. What a CUDA stream will be.
///
/// Owner: the engine. Threads: one, the trainer's; jobs run on the queue's. Blocks: synchronize() and the destructor
/// until all jobs are done, at most the communicators' timeout; while an exception passes, the destructor aborts the
/// communicators instead of waiting for ranks that may never come.
class Lane {
public:
    using Job = std::function<void()>;

    /// Jobs use no other communicators than these.
    Lane(std::vector<Communicator> communicators, bool queued);
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;
    ~Lane();

    /// Runs the job after those before it. `unit` and `subject` ("h.3", "gradients") label its calls in the flight
    /// recorder and stand in the error when it fails. A failed job aborts the communicators; waiting for its Work
    /// throws the error, and so does the next check().
    Work submit(const std::string& unit, std::string_view subject, Job job);
    /// Throws what the first failed job failed with.
    void check() const;
    /// All jobs are done and the caller may use the communicators; throws as check().
    void synchronize();
    void abort(const std::string& reason);

    bool is_queued() const noexcept { return queue_.has_value(); }

private:
    void run(const std::string& unit, std::string_view subject, const Job& job);

    std::vector<Communicator> communicators_;
    Work last_;
    mutable std::mutex mutex_;       // of failure_
    std::exception_ptr failure_;     // the first
    std::optional<CpuQueue> queue_;  // last: its thread uses the others
};

/// A communicator's calls in the flight recorder, "h.3 gradients"; then the label from before is back.
class ScopedLabel {
public:
    ScopedLabel(Communicator& communicator, std::string_view unit, std::string_view what);
    ScopedLabel(const ScopedLabel&) = delete;
    ScopedLabel& operator=(const ScopedLabel&) = delete;
    ~ScopedLabel();

private:
    static constexpr std::size_t kBytes = 64;
    Communicator& communicator_;
    char before_[kBytes];
    std::size_t before_bytes_;
};

}  // namespace autolaunch::fsdp
