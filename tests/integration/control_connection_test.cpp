#include "rendezvous/control_connection.hpp"

#include "control_peers.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace std::chrono_literals;
using asio::ip::tcp;

namespace {

control::Message warning(const std::string& text) { return control::Report(control::NodeWarning{text}); }

/// A head and a node, connected; keys and identities as given.
struct Pair {
    explicit Pair(const std::string& address = "127.0.0.1") : listener(io, address) {}

    void connect(std::shared_ptr<ControlSecurity> at_head, std::shared_ptr<ControlSecurity> at_node,
                 const ControlConnectionOptions& head_options = {}, const ControlConnectionOptions& node_options = {}) {
        tcp::socket socket(io);
        socket.connect(listener.endpoint());
        node.connection =
            ControlConnection::connect(std::move(socket), std::move(at_node), node_options, node.handlers());
        head.connection =
            ControlConnection::accept(listener.accept(), std::move(at_head), head_options, head.handlers());
    }
    void join(const ControlConnectionOptions& head_options = {}, const ControlConnectionOptions& node_options = {}) {
        connect(ControlSecurity::for_head(test_identity(), given_head_key()),
                ControlSecurity::for_node(io, test_identity(), given_plan()), head_options, node_options);
        REQUIRE(run_until(io, [this] { return head.ready && node.ready; }));
    }
    bool run(const std::function<bool()>& done, std::chrono::milliseconds within = 20s) {
        return run_until(io, done, within);
    }

    asio::io_context io;
    Listener listener;
    Peer head, node;
};

}  // namespace

TEST_CASE("head and node prove the key to each other and talk, over IPv4 and IPv6") {
    for (const char* address : {"127.0.0.1", "::1"}) {
        Pair pair(address);
        pair.join();
        for (int i = 0; i < 100; ++i) pair.node.connection->send(warning(std::to_string(i)));
        pair.head.connection->send(control::Command(control::KillRanks{3}));
        REQUIRE(pair.run([&] { return pair.head.received.size() == 100 && pair.node.received.size() == 1; }));
        for (int i = 0; i < 100; ++i)
            CHECK(pair.head.received[static_cast<std::size_t>(i)] == warning(std::to_string(i)));
        CHECK(pair.node.received[0] == control::Message(control::Command(control::KillRanks{3})));
        CHECK(pair.head.connection->remote_endpoint() == pair.node.connection->local_endpoint());

        pair.head.connection->close();
        REQUIRE(pair.run([&] { return pair.head.end && pair.node.end; }));
        CHECK(pair.head.end->kind == ConnectionEnd::Kind::by_us);
        CHECK(pair.node.end->kind == ConnectionEnd::Kind::closed);
    }
}
