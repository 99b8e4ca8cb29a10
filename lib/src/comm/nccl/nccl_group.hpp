#pragma once
// One NCCL communicator: its life, what is under way on it, and how it fails.
#include "comm/abort_state.hpp"
#include "comm/call.hpp"
#include "comm/nccl/nccl_runtime.hpp"
#include "comm/work_state.hpp"

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace autolaunch {

/// A collective on a stream, until it is over.
struct NcclOperation {
    CollectiveCall call;  ///< for messages
    CudaDevice::Event event;
    std::chrono::steady_clock::time_point started;
    std::atomic<bool> is_over{false};
};

/// A group of one rank has no NCCL communicator (each would take half a gigabyte); then only
/// streams and copies are left.
///
/// A failure, here or on another rank, ends the group: whoever waits throws, and a thread of its
/// own, which the watchdog starts, stops NCCL's kernels (by ncclCommRevoke where there is one, else
/// by ncclCommAbort) and tells the other ranks through the rendezvous.
///
/// Owner: the backend, its works and its buffers, by shared_ptr. Threads: run(), connect(),
/// split(), shrink() and allocate() one at a time, the rest any. Blocks: as each says, at most
/// NcclRuntime::timeout.
class NcclGroup : public std::enable_shared_from_this<NcclGroup> {
public:
    using Calls = std::function<ncclResult_t(ncclComm_t)>;
    using Operation = std::shared_ptr<NcclOperation>;

    /// Collective. `name` is the group's own, equal on its ranks, and unique in the job's
    /// generation.
    static std::shared_ptr<NcclGroup> connect(std::shared_ptr<NcclRuntime> runtime,
                                              std::string name, int rank, int size);
    ~NcclGroup();
    NcclGroup(const NcclGroup&) = delete;
    NcclGroup& operator=(const NcclGroup&) = delete;

    const std::string& name() const noexcept { return name_; }
    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }
    NcclRuntime& runtime() const noexcept { return *runtime_; }
    std::shared_ptr<NcclRuntime> shared_runtime() const { return runtime_; }

    /// Makes the calls and waits until NCCL has put them on their streams. Throws, and ends the
    /// group, when NCCL refuses. `doing` is for messages: "all_reduce of …".
    void run(const std::function<std::string()>& doing, const Calls& calls);
    /// Everything on the stream so far as one operation; `call` names it.
    Operation record(const CollectiveCall& call, CUstream stream);
    /// False when it goes on at `limit`. Throws what it failed with.
    bool wait(const Operation& operation,
              std::optional<std::chrono::steady_clock::time_point> limit = {});
    bool is_over(const Operation& operation);
    /// Until nothing is under way.
    void wait_for_all();

    /// A new group of the ranks of one color, in which this one is `rank` of `size`; null for a
    /// negative color. Collective. `any_pairs`: some color has two ranks or more, so NCCL is
    /// needed.
    std::shared_ptr<NcclGroup> split(std::string name, int color, int rank, int size,
                                     bool any_pairs);
    /// Of those that are not lost. Ends this group.
    std::shared_ptr<NcclGroup> shrink(std::span<const int> lost);

    /// Memory that this communicator moves without copies, where NCCL can.
    std::shared_ptr<void> allocate(std::size_t bytes);

    void abort(const std::string& reason);
    void throw_if_aborted() const { state_.throw_if_aborted(); }
    /// Throws what it failed with, where it did.
    void check() const {
        if (state_.aborted())
            throw_failure();
    }
    /// Also hears what other ranks said, at most ten times a second.
    CommunicatorStatus status();

    /// Returns when an aborted group has let go of the GPU, or after ten seconds, and then goes on
    /// in its own thread; at once when it was not aborted.
    void stop();
    /// The watchdog's look.
    void look_after();

private:
    NcclGroup(std::shared_ptr<NcclRuntime> runtime, std::string name, int rank, int size);
    static std::shared_ptr<NcclGroup> make(std::shared_ptr<NcclRuntime> runtime, std::string name,
                                           int rank, int size);
    static void end(NcclGroup* group);
    std::shared_ptr<void> end_with_job();
    ncclConfig_t config() const;
    ncclResult_t initialise(std::span<ncclUniqueId> ids);
    void await_ready(const char* doing);

    void fail(ErrorCode code, const std::string& reason);
    [[noreturn]] void throw_failure() const;
    void fail_and_throw(ErrorCode code, const std::string& reason);
    void fail_by(ncclResult_t result, const std::string& doing);
    std::string last_words(ncclResult_t result) const;
    Operation oldest_pending();
    void look_at_pending();
    void look_for_errors(const NcclOperation& operation);
    void hear_others(std::chrono::milliseconds at_most_every);
    std::shared_future<void> begin_stop();
    void let_go();
    void stop_nccl();
    void publish();
    void leave();
    std::shared_ptr<void> take_nccl_memory(std::size_t bytes);
    std::function<void()> register_memory(void* memory, std::size_t bytes);

    std::shared_ptr<NcclRuntime> runtime_;
    std::string name_;
    int rank_;
    int size_;
    int exceptions_at_birth_;

    // Held in every call of NCCL. Long only if NCCL itself hangs, so an abort does not insist on
    // it.
    std::mutex nccl_mutex_;
    ncclComm_t comm_ = nullptr;
    // Where a thread of NCCL's puts what a call makes, or nothing, when the call ends: maybe long
    // after it was given up.
    ncclComm_t made_ = nullptr;
    void* registered_ = nullptr;
    std::atomic<bool> stopping_{false};  // set under the mutex; nobody else calls NCCL then
    bool revoked_ = false;
    std::atomic<std::chrono::steady_clock::rep> calling_since_{
        0};  // 0: nobody is in a call of NCCL

    AbortState state_;
    mutable std::mutex failure_mutex_;
    ErrorCode failure_code_ = ErrorCode::aborted;
    std::atomic<bool> told_by_others_{false};
    std::mutex stop_mutex_;
    std::shared_future<void> stopped_;  // valid when begun

    std::mutex pending_mutex_;
    std::deque<Operation> pending_;
    std::mutex hear_mutex_;
    std::chrono::steady_clock::time_point heard_at_{};
};

}  // namespace autolaunch
