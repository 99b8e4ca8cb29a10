#pragma once
#include "comm/work_state.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>

namespace autolaunch {

/// A call that a CpuQueue runs. Owner: the queue's entry, the Work handles and the dispatcher.
/// Threads: any.
class QueuedWork final : public Work::State {
public:
    bool is_completed() const override;
    void wait() override;
    bool wait_for(std::chrono::nanoseconds timeout) override;

    /// Wakes all who wait; with an error, each wait throws it.
    void complete(std::exception_ptr error);

private:
    mutable std::mutex mutex_;
    mutable std::condition_variable completed_;
    bool is_completed_ = false;
    std::exception_ptr error_;
};

}  // namespace autolaunch
