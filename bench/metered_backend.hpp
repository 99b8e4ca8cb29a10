#pragma once
#include "comm/backend.hpp"

#include <autolaunch/comm/communicator.hpp>

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::bench {

/// What one rank's MeteredBackends were called for, and whether they do anything.
///
/// Owner: the bench. Threads: any; silence() and record() while no call runs.
class CallMeter {
public:
    /// While silent, collectives return at once and leave the buffers as they are: a step computes
    /// and waits for nobody.
    void silence(bool silent) noexcept { silent_ = silent; }
    bool is_silent() const noexcept { return silent_; }

    /// Keeps the calls from here on, for replay(), but for those of a few numbers. Their buffers
    /// must outlive it.
    void record(bool on);
    struct Totals {
        double gather_s = 0, reduce_s = 0;  ///< of all-gathers, and of all others
        double first_gather_s = 0,
               last_reduce_s = 0;  ///< of these: what no computation of the step can hide
        void add(bool gather, double seconds);
    };
    /// Runs the kept calls of the first of two equal steps again, one after the other with nothing
    /// beside them. Collective. `ahead`: gathers at the second one's end that are the next step's,
    /// if it gathers that much.
    Totals replay(Communicator& world, std::size_t ahead);

    class Group;
    void add_group(std::shared_ptr<Group> group);
    void keep(Group& group, const CollectiveCall& call);

private:
    std::mutex mutex_;
    bool silent_ = false;
    bool recording_ = false;
    std::vector<std::shared_ptr<Group>>
        groups_;  // in the order of their making, which all ranks share
};

/// A communicator that behaves as `world`, and whose calls, and those of groups split from it, pass
/// `meter`.
Communicator metered(const Communicator& world, const std::shared_ptr<CallMeter>& meter);

}  // namespace autolaunch::bench
