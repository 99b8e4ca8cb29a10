#pragma once
#include "control/control_message.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What is looked at between two generations: this node, and its neighbours in the ring of those
/// that are asked.
struct NodeCheckAsk {
    std::string next, previous;  ///< numeric addresses; empty: there is none
    std::string secret;          ///< of the data that neighbours send each other; empty: none
    /// Tells the node before the port that data is to be sent to (0: none), and calls back with the
    /// next node's; it may never do so.
    std::function<void(std::uint16_t port, std::function<void(std::uint16_t)> then)> exchange;
};

struct NodeCheckResult {
    std::vector<std::string> failures;  ///< of the node itself; none: it is fit
    bool reached_next = true, reached_previous = true;
    std::optional<control::LinkTried> link = {};  ///< to the next, which it does not name
};

}  // namespace autolaunch::launcher
