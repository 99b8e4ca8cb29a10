#pragma once
#include "doctor/check_runner.hpp"
#include "doctor/verdict.hpp"
#include "rendezvous/join.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace autolaunch::launcher {

struct MeetingOptions {
    std::chrono::milliseconds patience{
        5'000};          ///< with nodes that have not answered when the head's own checks are over
    int cancel_fd = -1;  ///< readable: give up (the keeper is gone); -1: never
    /// On the head: nodes that the job begins without, by name with the reason. Failures that are
    /// theirs alone are none of the others' then.
    std::function<std::map<std::string, std::string>(const Verdict&)> leave_out = {};
};

/// What the nodes came to. Everywhere the same, but for the verdict, which is the head's.
struct MeetingOutcome {
    bool has_failures = false, has_warnings = false;
    std::optional<Verdict> verdict;
    std::map<std::string, std::string> left_out = {};  ///< on the head
};

/// The nodes of a joined job, each calling this, check themselves at the same time and send what
/// they found to the head, which reads their clocks, compares them and tells all nodes what came of
/// it. docs/control-protocol.md has the bytes. A node that does not answer, or is lost, is a
/// failure by its name.
///
/// Uses generation 0's relays on their own channel; afterwards members and head are as if nothing
/// had been said. Serves `io` meanwhile. Throws RendezvousError when the head is lost. Blocks:
/// kTotalLimit and patience.
MeetingOutcome hold_meeting(asio::io_context& io, Joined& joined, const NodeSources& sources,
                            const CheckChoice& choice, const MeetingOptions& options = {});

}  // namespace autolaunch::launcher
