#pragma once
#include "control/control_message.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::launcher {

class ControlConnection;

/// The head's side of a joined job: commands to all nodes, reports from each. It lives in the agent
/// of one node, whose own Member talks to it without a socket. Routes fences and relays by itself.
///
/// Owner: Joined. Threads: the agent's one. Blocks: never.
class Head {
public:
    struct Handlers {
        std::function<void(int node, control::Report&&)> on_report;
        /// The node's connection broke or it fell silent. Once a node; it is left out of what
        /// follows.
        std::function<void(int node, const std::string& why)> on_node_lost;
    };

    virtual ~Head() = default;
    virtual void set_handlers(Handlers handlers) = 0;
    /// To every node that is left, this one included (from the event loop, not from within this
    /// call).
    virtual void command(const control::Command& command) = 0;
    /// To one node.
    virtual void command_to(int node, const control::Command& command) = 0;
    /// A node that has come to the running job gets the next node rank, which is returned. What
    /// it says before that call returns is reported after it.
    virtual int take_in(const std::string& name,
                        const std::shared_ptr<ControlConnection>& connection) = 0;
    /// Where each node is reached, numeric, by node rank; empty for who is gone, and for the head.
    virtual std::vector<std::string> addresses() const = 0;
    /// Of a node that was lost: it said nothing for too long. Else its connection broke or was
    /// closed.
    virtual bool fell_silent(int node) const = 0;
    /// After Finish: true once every node has closed its connection.
    virtual bool all_left() const = 0;
};

}  // namespace autolaunch::launcher
