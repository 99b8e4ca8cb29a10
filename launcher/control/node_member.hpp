#pragma once
#include "control/control_connection.hpp"
#include "control/control_message.hpp"
#include "control/member.hpp"
#include "control/member_inbox.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The Member of every node. How its messages reach the head is a function: a connection's send, or
/// on the head's own node a post. What comes before the owner has set its handlers is kept for
/// them.
///
/// Owner: Joined. Threads: the agent's one. Blocks: never.
class NodeMember final : public Member {
public:
    struct Link {
        std::function<void(control::Message&&)> send;
        std::function<void()> close;  ///< the member is gone, or has another head
        std::function<std::chrono::milliseconds()> silent_for = {};  ///< empty: it cannot be
    };
    NodeMember(asio::io_context& io, int node_rank, int node_count)
        : io_(io), self_(node_rank), count_(node_count), count_in_generation_(node_count) {}
    NodeMember(const NodeMember&) = delete;
    NodeMember& operator=(const NodeMember&) = delete;
    ~NodeMember() override;

    void set_link(Link link) { link_ = std::move(link); }
    /// Of a node that has come to a running job: the link is to that one.
    void set_head(int head) { head_ = head; }
    /// That node is head from now on.
    void follow(int head, Link link);
    /// From the head. Called from the event loop. Throws Error{mismatch} for what a head never
    /// sends. The owner may destroy this member within: nothing of it is touched after its handler
    /// was called.
    void deliver(control::Message&& message);
    void head_lost(const std::string& why);
    /// Expires with this member.
    std::weak_ptr<const bool> alive() const { return alive_; }

    void set_handlers(Handlers handlers) override;
    int node_rank() const override { return self_; }
    int node_count() const override { return count_; }
    int head_node() const override { return head_; }
    std::chrono::milliseconds head_is_silent_for() const override {
        return link_.silent_for ? link_.silent_for() : std::chrono::milliseconds(0);
    }
    void leave_head() override;
    void report(const control::Report& report) override { send(report); }
    void fence(int generation, const std::string& name, const std::vector<int>& nodes,
               std::string blob, FenceHandler on_done) override;
    void relay(control::RelayChannel channel, int generation, int destination,
               std::string bytes) override;
    void on_relay(control::RelayChannel channel, int generation, RelayHandler handler) override;
    void begin_generation(int generation) override {
        count_in_generation_ = count_;
        inbox_.begin_generation(generation);
    }

private:
    void send(control::Message&& message);
    void deliver_later(control::Message&& message);
    void hand_over_kept();
    void check_node(int node) const;
    std::vector<int> tidy(std::vector<int> nodes) const;

    asio::io_context& io_;
    int self_, count_;
    int head_ = 0;
    int count_in_generation_;  ///< what fences are over; others may come within it
    Link link_;
    Handlers handlers_;
    MemberInbox inbox_;
    std::vector<control::Command> kept_commands_;
    std::string kept_loss_;  // why the head was lost
    bool head_lost_ = false, finished_ = false;
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

/// The link over a connection to the head; what comes there is delivered to `member`, which
/// outlives the link. `who`: "the head, node1 (10.0.0.1),".
NodeMember::Link link_to_head(NodeMember& member, const std::string& who,
                              const std::shared_ptr<ControlConnection>& connection);

}  // namespace autolaunch::launcher
