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

/// What the calls of one rank's MeteredBackends did, and whether they do anything.
///
/// Owner: the bench. Threads: any; silence() and record() while no call runs.
class CallMeter {
public:
    /// While silent, collectives return at once and leave the buffers as they are: a step computes and waits for
    /// nobody.
    void silence(bool silent) noexcept { silent_ = silent; }
    bool is_silent() const noexcept { return silent_; }

    /// Seconds within calls since reset(), waiting for other ranks included, and the bytes they were about.
    struct Totals {
        double gather_s = 0, reduce_s = 0;
        std::size_t gather_bytes = 0, reduce_bytes = 0;
        int calls = 0;
    };
    Totals totals() const;
    void reset();

    /// Keeps the calls from here on, for replay(), but for those of a few numbers. Their buffers must outlive it.
    void record(bool on);
    /// Runs the kept calls again, one after the other with nothing beside them: what they take alone. Collective.
    Totals replay(Communicator& world);

    class Group;
    void add_group(std::shared_ptr<Group> group);
    void keep(Group& group, const CollectiveCall& call, double seconds);

private:
    mutable std::mutex mutex_;
    bool silent_ = false;
    bool recording_ = false;
    Totals totals_;
    std::vector<std::shared_ptr<Group>> groups_;  // in the order of their making, which all ranks share
};

/// A communicator that behaves as `world`, and whose calls, and those of groups split from it, pass `meter`.
Communicator metered(const Communicator& world, const std::shared_ptr<CallMeter>& meter);

}  // namespace autolaunch::bench
