#pragma once
#include "fsdp/fence.hpp"

#include <autolaunch/comm/communicator.hpp>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::fsdp {

/// One way for collectives beside the computation: communicators, and what runs their calls in
/// order. On the CPU that is a thread (thread_lane.hpp), on a GPU a stream (cuda/stream_lane.hpp).
///
/// Owner: the engine. Threads: one, the trainer's. Blocks: synchronize() and the destructor until
/// all jobs are done, at most the communicators' timeout; while an exception passes, the destructor
/// aborts the communicators instead of waiting for ranks that may never come.
class Lane {
public:
    /// Puts its work on the stream, which is none where the lane is a thread.
    using Job = std::function<void(Stream)>;

    /// Jobs use no other communicators than these.
    explicit Lane(std::vector<Communicator> communicators)
        : communicators_(std::move(communicators)) {}
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;
    virtual ~Lane() = default;

    /// Runs the job after those before it, and after the fences. `unit` and `subject` ("h.3",
    /// "gradients") label its calls in the flight recorder and stand in the error when it fails. A
    /// failed job aborts the communicators; then waiting for it throws the error where the lane is
    /// a thread, and so does the next check().
    virtual Fence submit(const std::string& unit, std::string_view subject, Job job,
                         std::span<const Fence> after = {}) = 0;
    /// All jobs so far.
    virtual Fence latest() const = 0;
    /// Throws what the first failed job failed with. On a GPU jobs fail when their communicators
    /// were aborted, and until they have ended: what they left behind is then no result.
    virtual void check() = 0;
    /// All jobs are done and the caller may use the communicators; throws as check().
    virtual void synchronize() = 0;
    /// Jobs go on while the trainer computes.
    virtual bool is_beside() const noexcept = 0;
    void abort(const std::string& reason);

protected:
    /// Aborts the communicators, and throws the exception that is being handled with `where` before
    /// its text.
    [[noreturn]] void fail(const std::string& where);
    /// Throws with the unit's name what the job throws.
    void run(const std::string& unit, std::string_view subject, const Job& job, Stream stream);

    std::vector<Communicator> communicators_;
};

/// A communicator's calls in the flight recorder, "h.3 gradients"; then the label from before is
/// back.
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
