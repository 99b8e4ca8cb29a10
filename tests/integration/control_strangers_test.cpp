// Who is not of the job, and what both ends can say about it.

#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "control_peers.hpp"

#include <doctest/doctest.h>

#include <asio/read.hpp>
#include <asio/write.hpp>

#include <sys/stat.h>

#include <deque>
#include <filesystem>
#include <string>

namespace control_strangers_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace std::chrono_literals;
using asio::ip::tcp;
using Kind = ConnectionEnd::Kind;

namespace {

ControlConnectionOptions handshake_within(std::chrono::milliseconds limit) {
    ControlConnectionOptions options;
    options.handshake_timeout = limit;
    return options;
}

Preamble node_preamble() {
    asio::io_context io;
    return node_security(io)->preamble();
}

/// What the head says of somebody who sends these bytes and then waits.
std::string judged(const std::string& bytes, Kind kind,
                   const ControlConnectionOptions& options = {}) {
    Meeting meeting;
    tcp::socket stranger = meeting.dial();
    meeting.accept(head_security(), options);
    asio::write(stranger, asio::buffer(bytes));
    REQUIRE(meeting.run([&] { return meeting.head.end.has_value(); }));
    CHECK_FALSE(meeting.head.ready);
    CHECK_MESSAGE(meeting.head.end->kind == kind, meeting.head.how());
    return meeting.head.end->reason;
}

/// What a node says of a server that answers with these bytes and closes.
std::string judged_by_node(const std::string& answer, Kind kind) {
    Meeting meeting;
    meeting.connect(node_security(meeting.io));
    tcp::socket server = meeting.acceptor.accept();
    asio::write(server, asio::buffer(answer));
    meeting.run_for(50ms);
    server.close();
    REQUIRE(meeting.run([&] { return meeting.node.end.has_value(); }));
    CHECK_FALSE(meeting.node.ready);
    CHECK_MESSAGE(meeting.node.end->kind == kind, meeting.node.how());
    return meeting.node.end->reason;
}

/// Both ends' words when these two meet; neither becomes ready.
struct Words {
    std::string head, node;
};
Words meet(const std::shared_ptr<ControlSecurity>& at_head,
           const std::function<std::shared_ptr<ControlSecurity>(asio::io_context&)>& at_node,
           Kind kind = Kind::key_refused) {
    Meeting meeting;
    meeting.connect(at_node(meeting.io));
    meeting.accept(at_head);
    REQUIRE(meeting.run([&] { return meeting.head.end && meeting.node.end; }));
    CHECK_FALSE(meeting.head.ready);
    CHECK_FALSE(meeting.node.ready);
    CHECK_MESSAGE(meeting.node.end->kind == kind, meeting.node.how());
    return {meeting.head.end->reason, meeting.node.end->reason};
}

class Folder {
public:
    Folder()
        : path_(std::filesystem::temp_directory_path() /
                ("autolaunch-key-" + std::to_string(::getpid()))) {
        std::filesystem::create_directory(path_);
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string key_path() const { return path_ / ".key"; }

private:
    std::filesystem::path path_;
};

/// Passes bytes between a node and the head, and keeps what the node sent.
std::string record_node_flight(Meeting& meeting, const std::shared_ptr<ControlSecurity>& at_head) {
    tcp::acceptor proxy(meeting.io, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0));
    tcp::socket to_proxy(meeting.io);
    to_proxy.connect(proxy.local_endpoint());
    meeting.node.connection = ControlConnection::connect(
        std::move(to_proxy), node_security(meeting.io), {}, meeting.node.handlers());
    tcp::socket from_node = proxy.accept();
    tcp::socket to_head = meeting.dial();
    meeting.accept(at_head);
    meeting.node.connection->send(note("secret words"));
    from_node.non_blocking(true);
    to_head.non_blocking(true);
    std::string recorded;
    const auto pass = [](tcp::socket& from, tcp::socket& to) {
        std::string bytes(65536, '\0');
        asio::error_code none;
        bytes.resize(from.read_some(asio::buffer(bytes), none));
        if (!bytes.empty())
            asio::write(to, asio::buffer(bytes));
        return bytes;
    };
    REQUIRE(meeting.run([&] {
        recorded += pass(from_node, to_head);
        pass(to_head, from_node);
        return !meeting.head.received.empty();
    }));
    return recorded;
}

}  // namespace

TEST_CASE("the head names who is no autolaunch") {
    CHECK(judged("GET / HTTP/1.1\r\nHost: x\r\n\r\n", Kind::not_ours) ==
          "it speaks HTTP, not autolaunch");
    CHECK(judged("SSH-2.0-OpenSSH_9.2\r\n", Kind::not_ours) == "it speaks SSH, not autolaunch");
    CHECK(judged(std::string("\x16\x03\x01\x02\x00\x01", 6), Kind::not_ours) ==
          "it speaks bare TLS, not autolaunch");
    CHECK(judged("\x01\xFFgarbage", Kind::not_ours) ==
          "it does not speak autolaunch: it began with \"\\x01\\xffgarbage\"");
}

TEST_CASE("a node names who is no head") {
    CHECK(judged_by_node("HTTP/1.1 400 Bad Request\r\n\r\n", Kind::not_ours) ==
          "it speaks HTTP, not autolaunch");
    CHECK(judged_by_node("", Kind::closed) == "it closed the connection without a word");
    CHECK(judged_by_node("auto", Kind::closed) ==
          "it closed the connection in the middle of its preamble");
    CHECK(judged_by_node(encode_preamble(node_preamble()), Kind::not_ours) ==
          "it is another node of this job, not its head");
}

TEST_CASE("another job, another version and another key are told apart, at both ends") {
    const Words job = meet(
        head_security(), [](auto& io) { return node_security(io, 'k', "slurm/4712.0"); },
        Kind::not_ours);
    CHECK(job.head == "it belongs to another job");
    CHECK(job.node == "it belongs to another job");

    const Words key = meet(head_security('a'), [](auto& io) { return node_security(io, 'b'); });
    CHECK(key.head == "it is of a job of this name, but has another key");
    CHECK(key.node == "it is of a job of this name, but has another key");

    Preamble newer = node_preamble();
    newer.protocol = 15;
    const std::string version =
        "it speaks version 15 of the control protocol, this node version 14: install the same "
        "autolaunch on all nodes";
    CHECK(judged(encode_preamble(newer).substr(0, 11) + "then whatever", Kind::not_ours) ==
          version);
    newer.role = ControlRole::head;
    CHECK(judged_by_node(encode_preamble(newer), Kind::not_ours) == version);
}

TEST_CASE("another version learns ours from the head's answer") {
    Meeting meeting;
    tcp::socket newer = meeting.dial();
    meeting.accept(head_security());
    Preamble preamble = node_preamble();
    preamble.protocol = 13;
    asio::write(newer, asio::buffer(encode_preamble(preamble)));
    REQUIRE(meeting.run([&] { return newer.available() >= 22; }));
    std::string answer(22, '\0');
    asio::read(newer, asio::buffer(answer));
    CHECK(answer.substr(0, 11) == std::string("autolnch\x0e\0\x02", 11));
    newer.close();
    REQUIRE(meeting.run([&] { return meeting.head.end.has_value(); }));
}

TEST_CASE("who is silent, slow or stops half-way is dropped by the deadline") {
    const auto soon = handshake_within(300ms);
    CHECK(judged("", Kind::too_slow, soon) == "it said nothing in 0.3 s");
    CHECK(judged("autolnch", Kind::too_slow, soon) == "it did not prove its key in 0.3 s");
    CHECK(judged(encode_preamble(node_preamble()), Kind::too_slow, soon) ==
          "it did not prove its key in 0.3 s");

    Meeting meeting;  // a byte at a time
    tcp::socket slow = meeting.dial();
    meeting.accept(head_security(), soon);
    for (const char byte : encode_preamble(node_preamble())) {
        asio::error_code gone;
        asio::write(slow, asio::buffer(&byte, 1), gone);
        meeting.run_for(30ms);
    }
    CHECK_MESSAGE(meeting.head.ended_as(Kind::too_slow, "it did not prove its key"),
                  meeting.head.how());
}

TEST_CASE("a node does not wait for a head that is silent") {
    Meeting meeting;
    meeting.connect(node_security(meeting.io), handshake_within(300ms));
    const tcp::socket silent = meeting.acceptor.accept();
    REQUIRE(meeting.run([&] { return meeting.node.end.has_value(); }));
    CHECK_MESSAGE(meeting.node.ended_as(Kind::too_slow, "it said nothing in 0.3 s"),
                  meeting.node.how());
}

TEST_CASE("a stranger cannot make the head hold more than a few KiB") {
    // A ClientHello that says it has 64 KiB, in records of 16 KiB.
    std::string hello("\x16\x03\x01\x3F\xFF\x01\x00\xFF\xFF\x03\x03", 11);
    hello.resize(5 + 0x3FFF, '\0');
    CHECK(judged(encode_preamble(node_preamble()) + hello, Kind::not_ours) ==
          "its TLS handshake failed: too many bytes");
    CHECK(judged(encode_preamble(node_preamble()) + "no TLS at all", Kind::not_ours)
              .find("its TLS handshake failed") == 0);
}

TEST_CASE("a recorded conversation is of no use to who plays it back") {
    Meeting meeting;
    const auto at_head = head_security();
    const std::string recorded = record_node_flight(meeting, at_head);
    CHECK(recorded.find("secret words") == std::string::npos);
    Meeting again;
    tcp::socket attacker = again.dial();
    again.accept(at_head);
    asio::write(attacker, asio::buffer(recorded));
    REQUIRE(again.run([&] { return again.head.end.has_value(); }));
    CHECK_FALSE(again.head.ready);
    CHECK(again.head.received.empty());
    CHECK_MESSAGE(again.head.ended_as(Kind::not_ours, "its TLS handshake failed"),
                  again.head.how());
}

TEST_CASE("strangers do not keep a node from joining") {
    Meeting meeting;
    const auto at_head = head_security();
    std::vector<tcp::socket> strangers;
    std::deque<Peer> seen(50);
    for (Peer& peer : seen) {
        strangers.push_back(meeting.dial());
        peer.connection =
            ControlConnection::accept(meeting.acceptor.accept(), at_head, {}, peer.handlers());
    }
    for (std::size_t i = 0; i < strangers.size(); i += 2)
        asio::write(strangers[i], asio::buffer("nonsense", 8));
    meeting.connect(node_security(meeting.io));
    meeting.accept(at_head);
    CHECK(meeting.run([&] { return meeting.head.ready && meeting.node.ready; }));
}

TEST_CASE("a random key goes to the nodes through a file that only its owner reads") {
    const Folder folder;
    KeyPlan plan;
    plan.shared_file = folder.key_path();
    {
        Meeting meeting;
        const JobKey key = test_key('r', JobKey::Source::run_directory);
        meeting.connect(ControlSecurity::for_node(meeting.io, test_identity(), plan));
        meeting.accept(ControlSecurity::for_head(
            test_identity(), {key, {}, KeyFile(folder.key_path(), key), "file"}));
        REQUIRE(meeting.run([&] { return meeting.head.ready && meeting.node.ready; }));
        struct stat status {};
        REQUIRE(::stat(folder.key_path().c_str(), &status) == 0);
        CHECK((status.st_mode & 0777) == 0600);
    }
    CHECK_FALSE(std::filesystem::exists(folder.key_path()));  // it goes with the head
}

TEST_CASE("the node says what is wrong with the key it should use") {
    const Folder folder;
    KeyPlan plan;
    plan.shared_file = folder.key_path();
    const JobKey key = test_key('r', JobKey::Source::run_directory);
    const auto at_head = [&] {
        return ControlSecurity::for_head(test_identity(), {key, {}, {}, "file"});
    };
    const auto at_node = [&](asio::io_context& io) {
        return ControlSecurity::for_node(io, test_identity(), plan);
    };
    const auto words = [&](const std::string& expected) {
        const std::string said = meet(at_head(), at_node).node;
        CHECK_MESSAGE(said.find(expected) != std::string::npos, said);
    };
    words("is that folder on a file system that all nodes share?");
    write_file(folder.key_path(), "short", 0600);
    words("is no job key");
    write_file(folder.key_path(), std::string(32, 'r'), 0644);
    words("may be read or written by others (mode 0644)");
    std::filesystem::remove(folder.key_path());
    std::filesystem::create_symlink("/dev/zero", folder.key_path());
    words("cannot open");
    plan.given = test_key();
    plan.given_by = "AUTOLAUNCH_JOB_KEY";
    words(
        "this node has its key from AUTOLAUNCH_JOB_KEY, the head from a file in the run directory");
    CHECK(meet(head_security(), [](auto& io) {
              return ControlSecurity::for_node(io, test_identity(), {});
          }).node.find("this node was given none") != std::string::npos);
}

}  // namespace control_strangers_test
