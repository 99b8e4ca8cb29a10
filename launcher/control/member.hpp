#pragma once
#include "control/control_message.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// A node's side of a joined job. The same on the head's node and on the others.
///
/// Owner: Joined. Threads: the agent's one. Blocks: never. Handlers are called from the event loop.
class Member {
public:
    struct Handlers {
        std::function<void(const control::Command&)> on_command;
        std::function<void(const std::string& why)> on_head_lost;  ///< never on the head's own node
    };
    using FenceHandler = std::function<void(std::vector<std::pair<int, std::string>>&& blobs)>;
    using RelayHandler = std::function<void(int source, std::string_view bytes)>;

    virtual ~Member() = default;
    virtual void set_handlers(Handlers handlers) = 0;
    virtual int node_rank() const = 0;
    virtual int node_count() const = 0;
    /// The head's, which another node may become.
    virtual int head_node() const { return 0; }
    /// How long ago it was heard last; nothing on its own node.
    virtual std::chrono::milliseconds head_is_silent_for() const { return {}; }

    /// Nothing more is said to the head, nor heard of it: another one is sought.
    virtual void leave_head() {}
    virtual void report(const control::Report& report) = 0;
    /// `on_done` gets the blobs that are not empty, by node rank; it is dropped when a later
    /// generation starts. A fence over this node alone is done at once.
    virtual void fence(int generation, const std::string& name, const std::vector<int>& nodes,
                       std::string blob, FenceHandler on_done) = 0;
    /// To another node or to this one. What arrives for another generation than the receiver's is
    /// dropped there.
    virtual void relay(control::RelayChannel channel, int generation, int destination,
                       std::string bytes) = 0;
    /// Who takes what is relayed to this node in that generation; replaces the earlier one, null
    /// for nobody.
    virtual void on_relay(control::RelayChannel channel, int generation, RelayHandler handler) = 0;
    /// Drops the fences and relays of generations before this one.
    virtual void begin_generation(int generation) = 0;
};

}  // namespace autolaunch::launcher
