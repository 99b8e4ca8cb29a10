#include "control/control_connection.hpp"

#include "control_peers.hpp"

#include <doctest/doctest.h>

#include <asio/steady_timer.hpp>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <string>

namespace control_connection_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace std::chrono_literals;
using Kind = ConnectionEnd::Kind;

namespace {

ControlConnectionOptions silence_after(std::chrono::milliseconds limit) {
    ControlConnectionOptions options;
    options.silence_limit = limit;
    return options;
}

/// A node in a process of its own, so that it can be stopped and killed.
class NodeProcess {
public:
    explicit NodeProcess(const asio::ip::tcp::endpoint& head,
                         const ControlConnectionOptions& options = {})
        : pid_(::fork()) {
        if (pid_ != 0)
            return;
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        asio::io_context io;
        asio::ip::tcp::socket socket(io);
        socket.connect(head);
        const auto connection =
            ControlConnection::connect(std::move(socket), node_security(io), options, {});
        io.run_for(60s);
        ::_exit(0);
    }
    ~NodeProcess() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    void signal(int number) const { ::kill(pid_, number); }

private:
    pid_t pid_;
};

std::size_t open_files() {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
        ++count;
    return count;
}

}  // namespace

TEST_CASE("head and node prove the key to each other and talk, over IPv4 and IPv6") {
    for (const char* address : {"127.0.0.1", "::1"}) {
        Meeting meeting(address);
        REQUIRE(meeting.join());
        for (int i = 0; i < 100; ++i)
            meeting.node.connection->send(note(std::to_string(i)));
        meeting.head.connection->send(control::Command(control::KillRanks{3}));
        REQUIRE(meeting.run([&] {
            return meeting.head.received.size() == 100 && meeting.node.received.size() == 1;
        }));
        for (std::size_t i = 0; i < 100; ++i)
            CHECK(meeting.head.received[i] == note(std::to_string(i)));
        CHECK(meeting.node.received[0] ==
              control::Message(control::Command(control::KillRanks{3})));
        CHECK(meeting.head.connection->remote_endpoint() ==
              meeting.node.connection->local_endpoint());

        meeting.head.connection->close();
        REQUIRE(meeting.run([&] { return meeting.head.end && meeting.node.end; }));
        CHECK(meeting.head.ended_as(Kind::by_us, ""));
        CHECK(meeting.node.ended_as(Kind::closed, "it closed the connection"));
    }
}

TEST_CASE("what is sent before the peer has proved the key goes out after") {
    Meeting meeting;
    meeting.connect(node_security(meeting.io));
    meeting.node.connection->send(note("early"));
    meeting.accept(head_security());
    REQUIRE(meeting.run([&] { return !meeting.head.received.empty(); }));
    CHECK(meeting.head.received[0] == note("early"));
}

TEST_CASE("large messages pass both ways at once, in order") {
    Meeting meeting;
    REQUIRE(meeting.join());
    for (Peer* peer : {&meeting.head, &meeting.node}) {
        peer->connection->set_frame_limit(control::kFrameLimit);
        peer->connection->send(note("first"));
        peer->connection->send(
            control::Relay{1, 1, 0, 1, std::string(20 << 20, peer == &meeting.head ? 'h' : 'n')});
        peer->connection->send(note("last"));
    }
    REQUIRE(meeting.run(
        [&] { return meeting.head.received.size() == 3 && meeting.node.received.size() == 3; }));
    CHECK(std::get<control::Relay>(meeting.node.received[1]).bytes == std::string(20 << 20, 'h'));
    CHECK(std::get<control::Relay>(meeting.head.received[1]).bytes == std::string(20 << 20, 'n'));
    CHECK(meeting.node.received[2] == note("last"));
}

TEST_CASE("close lets what was sent before arrive, even when the peer is talking") {
    Meeting meeting;
    REQUIRE(meeting.join());
    meeting.node.connection->set_frame_limit(control::kFrameLimit);
    for (int i = 0; i < 50; ++i)
        meeting.node.connection->send(note(std::string(50'000, 'x')));
    meeting.head.connection->send(control::Relay{1, 1, 0, 1, std::string(4 << 20, 'h')});
    meeting.head.connection->send(control::Refused{"because", ""});
    meeting.head.connection->close();
    REQUIRE(meeting.run([&] { return meeting.node.end && meeting.head.end; }));
    REQUIRE_MESSAGE(meeting.node.received.size() == 2, meeting.node.how(), " ", meeting.head.how());
    CHECK(meeting.node.received[1] == control::Message(control::Refused{"because", ""}));
    CHECK(meeting.head.received.empty());  // nothing is handed on after close()
}

TEST_CASE("heartbeats keep an idle connection alive, and are not handed on") {
    Meeting meeting;
    REQUIRE(meeting.join(silence_after(300ms), silence_after(300ms)));
    meeting.run_for(1500ms);
    CHECK_MESSAGE(!meeting.head.end, meeting.head.how());
    CHECK_MESSAGE(!meeting.node.end, meeting.node.how());
    CHECK(meeting.head.received.empty());
    CHECK(meeting.node.received.empty());
}

TEST_CASE("a process that was stopped itself does not blame the peer") {
    Meeting meeting;
    const NodeProcess process(meeting.acceptor.local_endpoint(), silence_after(900ms));
    meeting.accept(head_security(), silence_after(300ms));
    REQUIRE(meeting.run([&] { return meeting.head.ready; }));
    ::usleep(600'000);  // meanwhile the node beats every 300 ms
    meeting.run_for(10ms);
    CHECK_MESSAGE(!meeting.head.end, meeting.head.how());
}

TEST_CASE("a stopped peer is silent, a killed one is gone at once") {
    Meeting meeting;
    NodeProcess process(meeting.acceptor.local_endpoint());
    meeting.accept(head_security(), silence_after(500ms));
    REQUIRE(meeting.run([&] { return meeting.head.ready; }));
    SUBCASE("stopped") {
        process.signal(SIGSTOP);
        REQUIRE(meeting.run([&] { return meeting.head.end.has_value(); }));
        CHECK_MESSAGE(meeting.head.ended_as(Kind::silent, "it has said nothing for 0.5 s"),
                      meeting.head.how());
    }
    SUBCASE("killed") {
        process.signal(SIGKILL);
        REQUIRE(meeting.run([&] { return meeting.head.end.has_value(); }));
        CHECK_MESSAGE(meeting.head.ended_as(Kind::closed, ""), meeting.head.how());
    }
}

TEST_CASE("a peer that does not read is dropped at the limit of what may wait") {
    Meeting meeting;
    NodeProcess process(meeting.acceptor.local_endpoint());
    ControlConnectionOptions options;
    options.send_limit_bytes = 8 << 20;
    meeting.accept(head_security(), options);
    REQUIRE(meeting.run([&] { return meeting.head.ready; }));
    process.signal(SIGSTOP);
    const auto frame =
        std::make_shared<const std::string>(control::encode(note(std::string(60'000, 'x'))));
    for (int i = 0; i < 1000 && !meeting.head.end; ++i) {
        meeting.head.connection->send_encoded(frame);
        meeting.run_for(1ms);
    }
    REQUIRE(meeting.run([&] { return meeting.head.end.has_value(); }));
    CHECK_MESSAGE(meeting.head.ended_as(Kind::too_slow, "it does not read: 8 MiB wait to be sent"),
                  meeting.head.how());
}

TEST_CASE("close gives up on a peer that does not read after a second") {
    Meeting meeting;
    NodeProcess process(meeting.acceptor.local_endpoint());
    meeting.accept(head_security());
    REQUIRE(meeting.run([&] { return meeting.head.ready; }));
    process.signal(SIGSTOP);
    meeting.head.connection->send(control::Relay{1, 1, 0, 1, std::string(30 << 20, 'h')});
    meeting.head.connection->close();
    REQUIRE(meeting.run([&] { return meeting.head.end.has_value(); }, 10s));
    CHECK(meeting.head.ended_as(Kind::by_us, ""));
}

TEST_CASE("a frame over the limit ends the connection, a raised limit lets it pass") {
    for (const bool raised : {false, true}) {
        Meeting meeting;
        REQUIRE(meeting.join());
        if (raised)
            meeting.head.connection->set_frame_limit(1 << 20);
        meeting.node.connection->send(note(std::string(100'000, 'x')));
        REQUIRE(meeting.run([&] { return meeting.head.end || !meeting.head.received.empty(); }));
        CHECK(meeting.head.received.size() == (raised ? 1 : 0));
        if (!raised)
            CHECK_MESSAGE(meeting.head.ended_as(Kind::corrupt, "the most is 65536"),
                          meeting.head.how());
    }
}

TEST_CASE("handlers may replace themselves, send, close and let go of the connection") {
    Meeting meeting;
    REQUIRE(meeting.join());
    auto& connection = meeting.head.connection;
    SUBCASE("replace and answer") {
        Peer next;
        connection->set_handlers({{},
                                  [&](control::Message&&) {
                                      connection->set_handlers(next.handlers());
                                      connection->send(note("taken over"));
                                  },
                                  {}});
        meeting.node.connection->send(note("1"));
        meeting.node.connection->send(note("2"));
        REQUIRE(meeting.run(
            [&] { return next.received.size() == 1 && meeting.node.received.size() == 1; }));
        CHECK(next.received[0] == note("2"));
        meeting.node.connection->close();
        REQUIRE(meeting.run([&] { return next.end.has_value(); }));
    }
    SUBCASE("let go") {
        int calls = 0;
        connection->set_handlers(
            {{}, [&](control::Message&&) { ++calls, connection.reset(); }, {}});
        meeting.node.connection->send(note("1"));
        meeting.node.connection->send(note("2"));
        REQUIRE(meeting.run([&] { return meeting.node.end.has_value(); }));
        CHECK(calls == 1);
        CHECK_FALSE(meeting.head.end);
    }
}

TEST_CASE("a thousand nodes join at once, and nothing is left of them") {
    const std::size_t files_before = open_files();
    {
        constexpr std::size_t kNodes = 1000;
        Meeting meeting;
        meeting.acceptor.listen(4096);
        const auto at_head = head_security();
        const auto at_node = node_security(meeting.io);
        std::deque<Peer> heads(kNodes);
        std::deque<Peer> nodes(kNodes);
        std::size_t i = 0;
        for (Peer& node : nodes) {
            node.connection =
                ControlConnection::connect(meeting.dial(), at_node, {}, node.handlers());
            node.connection->send(note(std::to_string(i++)));
        }
        for (Peer& head : heads)
            head.connection =
                ControlConnection::accept(meeting.acceptor.accept(), at_head, {}, head.handlers());
        const auto all_heard = [&] {
            return std::all_of(heads.begin(), heads.end(),
                               [](const Peer& head) { return head.received.size() == 1; });
        };
        REQUIRE(meeting.run(all_heard, 60s));
        for (Peer& head : heads)
            head.connection->close();
        const auto all_ended = [](const std::deque<Peer>& peers) {
            return std::all_of(peers.begin(), peers.end(),
                               [](const Peer& peer) { return peer.end.has_value(); });
        };
        REQUIRE(meeting.run([&] { return all_ended(heads) && all_ended(nodes); }, 60s));
    }
    CHECK(open_files() <= files_before + 1);  // OpenSSL may keep a source of random bytes
}

}  // namespace control_connection_test
