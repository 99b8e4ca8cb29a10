#pragma once
#include "base/abort_hooks.hpp"
#include "base/deadline.hpp"

#include <autolaunch/export.hpp>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace autolaunch {

/// Whether one generation of a rank that can go on in the next one is over. A failed collective may
/// be known before the agent's word for why.
///
/// Owner: by shared_ptr, the Session and the communicators of that generation. Threads: any.
class AUTOLAUNCH_API GenerationWatch {
public:
    /// How long the agent's word may come after what is seen of a rank's death.
    static constexpr std::chrono::seconds kWordTime{10};

    explicit GenerationWatch(int generation) : generation_(generation) {}

    /// From now on an error may mean the generation's end. Before, nothing here ever waits.
    void begin();
    /// It is not waited for any more.
    void end();
    /// The agent's word. Wakes all who wait in this generation's communicators and stores.
    void over(const std::string& reason);
    bool is_over() const;
    /// Within a catch clause: throws GenerationChanged where what was caught may come of the
    /// generation's end, and that comes. Blocks: at most kWordTime.
    void throw_if_explained() const;

    AbortHooks& hooks() { return *hooks_; }

    /// What must have come to its end before the process goes on: it returns when it has, throws
    /// Error where it never will, and gives up at the deadline.
    using End = std::function<void(const Deadline&)>;
    void end_before_leaving(End end);
    /// Blocks: until the deadline at most. Throws what an End does.
    void await_ends(const Deadline& deadline) const;

private:
    bool comes() const;

    const int generation_;
    const std::shared_ptr<AbortHooks> hooks_ = std::make_shared<AbortHooks>();
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    bool begun_ = false, over_ = false;
    std::string reason_;
    std::vector<End> ends_;
};

}  // namespace autolaunch
