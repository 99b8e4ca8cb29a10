#pragma once
// Members of a job in one process, joined by the real control connections: TLS over sockets on the
// loopback.
#include "control/head_hub.hpp"
#include "control/node_member.hpp"
#include "control_peers.hpp"

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::testing {

class SecuredMembers {
public:
    /// Runs the loop until all are connected.
    SecuredMembers(asio::io_context& io, int nodes) : io_(io) {
        asio::ip::tcp::acceptor acceptor(io, {asio::ip::make_address("127.0.0.1"), 0});
        const auto head = launcher::head_security();
        launcher::Roster roster;
        launcher::HeadHub::Connections at_head(1);
        for (int node = 0; node < nodes; ++node) {
            roster.nodes.push_back({"node" + std::to_string(node), 1});
            if (node > 0)
                at_head.push_back(connect(acceptor, head, node, nodes));
        }
        hub_ = std::make_unique<launcher::HeadHub>(io, roster, std::move(at_head));
        members_.insert(members_.begin(), hub_->make_own_member());
    }
    SecuredMembers(const SecuredMembers&) = delete;
    SecuredMembers& operator=(const SecuredMembers&) = delete;

    launcher::Member& operator[](int node) { return *members_.at(static_cast<std::size_t>(node)); }

private:
    std::shared_ptr<launcher::ControlConnection> connect(
        asio::ip::tcp::acceptor& acceptor, const std::shared_ptr<launcher::ControlSecurity>& head,
        int node, int nodes) {
        asio::ip::tcp::socket socket(io_);
        socket.connect(acceptor.local_endpoint());
        int ready = 0;
        const launcher::ControlConnection::Handlers handlers{[&ready] { ++ready; }, {}, {}};
        const auto near = launcher::ControlConnection::connect(
            std::move(socket), launcher::node_security(io_), {}, handlers);
        const auto far = launcher::ControlConnection::accept(acceptor.accept(), head, {}, handlers);
        while (ready < 2)
            if (io_.run_one_for(std::chrono::seconds(20)) == 0)
                throw std::runtime_error("no control connection");
        near->set_frame_limit(launcher::control::kFrameLimit);
        far->set_frame_limit(launcher::control::kFrameLimit);
        members_.push_back(make_member(near, node, nodes));
        return far;
    }
    std::unique_ptr<launcher::NodeMember> make_member(
        const std::shared_ptr<launcher::ControlConnection>& connection, int node, int nodes) {
        auto member = std::make_unique<launcher::NodeMember>(io_, node, nodes);
        connection->set_handlers({{},
                                  [target = member.get()](launcher::control::Message&& message) {
                                      target->deliver(std::move(message));
                                  },
                                  [target = member.get()](const launcher::ConnectionEnd& end) {
                                      target->head_lost(end.reason);
                                  }});
        member->set_link(
            {[connection](launcher::control::Message&& message) { connection->send(message); },
             [connection] {
                 connection->set_handlers({});
                 connection->close();
             }});
        return member;
    }

    asio::io_context& io_;
    std::unique_ptr<launcher::HeadHub> hub_;
    std::vector<std::unique_ptr<launcher::NodeMember>> members_;
};

}  // namespace autolaunch::testing
