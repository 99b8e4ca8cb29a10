#pragma once
#include "allocation/roster.hpp"
#include "control/control_connection.hpp"
#include "control/fence_table.hpp"
#include "control/head.hpp"
#include "control/node_member.hpp"

#include <asio/io_context.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// The middle of a joined job: a connection to every other node, and a post to the one it lives on.
/// What comes before the owner has set its handlers is kept for them.
///
/// Owner: Joined. Threads: the agent's one. Blocks: never. What a node sends costs what it brings,
/// and a command is encoded once for all.
class HeadHub final : public Head {
public:
    using Connections =
        std::vector<std::shared_ptr<ControlConnection>>;  // by node rank; none for this node

    /// This node is `roster.self`. One without a connection is not there (yet).
    HeadHub(asio::io_context& io, const Roster& roster, Connections connections);
    HeadHub(const HeadHub&) = delete;
    HeadHub& operator=(const HeadHub&) = delete;
    ~HeadHub() override;

    /// The one of this node, which goes through no socket. Once.
    std::unique_ptr<NodeMember> make_own_member();
    /// The same, of one that had another head.
    void take_own_member(NodeMember& member);
    /// A node that is known, and was not there. False: it was.
    bool take_back(int node, const std::shared_ptr<ControlConnection>& connection);
    bool is_there(int node) const;

    void set_handlers(Handlers handlers) override;
    void command(const control::Command& command) override;
    void command_to(int node, const control::Command& command) override { send(node, command); }
    int take_in(const std::string& name,
                const std::shared_ptr<ControlConnection>& connection) override;
    std::vector<std::string> addresses() const override;
    bool fell_silent(int node) const override {
        return peers_[static_cast<std::size_t>(node)].fell_silent;
    }
    bool all_left() const override { return left_ == peers_.size() - 1; }

private:
    struct Peer {
        std::string name;
        std::shared_ptr<ControlConnection>
            connection;  // none: it has left or was lost, or it is this node
        bool fell_silent = false;
    };
    using Kept = std::pair<int, std::variant<control::Report, std::string>>;  // node; a report, or
                                                                              // why it was lost

    NodeMember::Link link_of_own_member();
    void adopt(int node, const std::shared_ptr<ControlConnection>& connection);
    void receive(int node, control::Message&& message);
    void receive_checked(int node, control::Message&& message);
    void send(int node, control::Message&& message);
    void send_encoded(int node, const std::shared_ptr<const std::string>& frame,
                      const control::Message& message);
    void complete(int generation, FenceTable::Completed&& fence);
    void send_part(const std::vector<int>& nodes, const control::FenceDone& part);
    void on_end(int node, const ConnectionEnd& end);
    void tell_owner(Kept&& news);
    void hand_over_kept();
    void post_to_own_member(control::Message message);

    asio::io_context& io_;
    const int self_;
    std::vector<Peer> peers_;
    FenceTable fences_;
    Handlers handlers_;
    std::vector<Kept> kept_;
    NodeMember* own_member_ = nullptr;
    std::size_t left_ = 0;  // peers without a connection, but for this node
    bool finishing_ = false;
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace autolaunch::launcher
