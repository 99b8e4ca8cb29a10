#pragma once
#include "base/deadline.hpp"
#include "stage_cache/tree_copy.hpp"
#include "staging/stager_words.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace autolaunch::launcher {

/// Tells the agent once a second how far the work is, from a thread of its own, and ends this
/// process where nothing comes, or not in time.
class Watch {
public:
    explicit Watch(std::chrono::milliseconds timeout);
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    /// Grows while the source answers.
    std::atomic<std::int64_t> signs{0};
    /// Others are watched by who waits for them, and our own disk may take its time.
    std::atomic<bool> is_elsewhere{false};

    /// `is_remote`: a server's client has a patience of its own, and says more.
    void begin(const std::string& name, bool is_remote, const CopyProgress* copy, std::int64_t of);
    void finish();

private:
    void tell();
    void look(StagerWord& word);
    void judge(const Deadline& deadline) const;

    const std::chrono::milliseconds timeout_;
    std::mutex mutex_;
    std::string name_ = "what is to be staged";
    bool is_remote_ = false;
    const CopyProgress* copy_ = nullptr;
    std::int64_t of_ = 0, before_ = -1;
    Deadline::Clock::time_point moved_ = Deadline::Clock::now();
    bool is_over_ = false;
};

}  // namespace autolaunch::launcher
