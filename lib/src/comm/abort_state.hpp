#pragma once
// Whether a communicator of one process was aborted, and why.
#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/error.hpp>

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

namespace autolaunch {

/// The first reason stays. Owner: a backend. Threads: any. Never blocks for long.
class AbortState {
public:
    /// True for the call that aborted.
    bool abort(const std::string& reason) {
        const std::scoped_lock lock(mutex_);
        if (aborted_.load(std::memory_order_relaxed))
            return false;
        reason_ = reason;
        aborted_.store(true, std::memory_order_release);
        return true;
    }
    bool aborted() const noexcept { return aborted_.load(std::memory_order_acquire); }
    std::string reason() const {
        const std::scoped_lock lock(mutex_);
        return reason_;
    }
    void throw_if_aborted() const {
        if (aborted())
            throw AbortedError(std::string(kPrefix) + reason());
    }
    /// What such an error says, without the words that all of them start with.
    static std::string reason_in(const AbortedError& error) {
        const std::string_view text = error.what();
        return std::string(text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : text);
    }
    CommunicatorStatus status() const noexcept {
        return aborted() ? CommunicatorStatus::aborted : CommunicatorStatus::ok;
    }

private:
    static constexpr std::string_view kPrefix = "the communicator was aborted: ";

    mutable std::mutex mutex_;
    std::string reason_;
    std::atomic<bool> aborted_{false};
};

}  // namespace autolaunch
