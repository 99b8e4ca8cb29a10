#pragma once
#include "allocation/allocation.hpp"
#include "allocation/time_left_query.hpp"
#include "rendezvous/join.hpp"
#include "run/start_gate.hpp"

#include <asio/io_context.hpp>

#include <optional>

namespace autolaunch::launcher {

/// The job's time limit, for a gate that wants to know it: asked while the nodes meet, of
/// slurmctld, whose word counts.
///
/// Owner: the launch. Threads: the agent's one. Blocks: judge(), 5 s at most, and as long as the
/// other nodes take to leave where the gate throws.
class TimeLimitInquiry {
public:
    TimeLimitInquiry(const StartGate& gate, const Allocation& allocation,
                     const EnvironmentMap& environment);
    /// The nodes have met. What the gate throws is told to all of them, and thrown on.
    void judge(asio::io_context& io, Joined& joined);

private:
    const StartGate& gate_;
    bool wanted_;
    std::optional<TimeLeftQuery> query_;
};

}  // namespace autolaunch::launcher
