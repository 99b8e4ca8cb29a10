// Whose a connection from another node is: the head asks, and real sockets answer.
#include "rank_services/connection_vouching.hpp"
#include "base/socket_owner.hpp"
#include "other_user.hpp"
#include "posted_members.hpp"
#include "store_peer.hpp"

#include <asio/io_context.hpp>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace connection_vouching_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using autolaunch::testing::as_other_user;
using autolaunch::testing::can_be_other_user;
using autolaunch::testing::PostedMembers;

namespace {

/// A connection on this machine, which stands for both nodes.
struct Link {
    explicit Link(bool by_other_user) {
        UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in any{};
        any.sin_family = AF_INET;
        any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t bytes = sizeof any;
        REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&any), bytes) == 0);
        REQUIRE(::listen(listener.get(), 1) == 0);
        ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&any), &bytes);
        const auto call = [&] { caller = testing::raw_peer(ntohs(any.sin_port)); };
        by_other_user ? as_other_user(call) : call();
        accepted = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        ends = tcp_ends(accepted.get()).value();
    }
    UniqueFd caller, accepted;
    TcpEnds ends;
};

/// The nodes 1 and 2 answer the head; node 1 has told the address that the connection comes from, or
/// does so after the question, while node 2 has told nothing yet.
std::optional<bool> verdict_on(const TcpEnds& ends, bool told_before) {
    asio::io_context io;
    PostedMembers members(io, 3);
    ConnectionVouching head(io, members[0], 0);
    const ConnectionVoucher first(members[1], 0);
    std::optional<ConnectionVoucher> second;
    if (told_before)
        second.emplace(members[2], 0);
    const auto tell = [&] {
        members[1].relay(control::RelayChannel::vouching, 0, 0,
                         vouching::encode_addresses({ends.far.address}));
    };
    if (told_before)
        tell();
    io.poll();
    std::optional<bool> verdict;
    head.ask(ends, [&](bool admitted) {
        CHECK_FALSE(verdict.has_value());
        verdict = admitted;
    });
    io.restart();
    io.poll();
    if (!told_before) {
        CHECK_FALSE(verdict.has_value());  // it waits for who may know it
        tell();
        io.restart();
        io.poll();
    }
    return verdict;
}

}  // namespace

TEST_CASE("a node's agent vouches for sockets of its own user, and for no others") {
    const Link ours(false);
    CHECK(verdict_on(ours.ends, true) == true);
    CHECK(verdict_on(ours.ends, false) == true);
    TcpEnds guessed = ours.ends;
    ++guessed.far.port;
    CHECK(verdict_on(guessed, true) == false);
    if (!can_be_other_user())
        return;
    const Link theirs(true);
    CHECK(verdict_on(theirs.ends, true) == false);
}

TEST_CASE("who has closed meanwhile is not vouched for") {
    Link link(false);
    link.caller.reset();
    CHECK(verdict_on(link.ends, true) == false);
}

TEST_CASE("an address that no node has is refused when all have told theirs, and not before") {
    asio::io_context io;
    PostedMembers members(io, 3);
    ConnectionVouching head(io, members[0], 0);
    const TcpEnds ends{.near = {{}, 1}, .far = {{1}, 2}};
    std::vector<bool> verdicts;
    const auto ask = [&] {
        head.ask(ends, [&](bool admitted) { verdicts.push_back(admitted); });
        io.restart();
        io.poll();
    };
    const auto tell = [&](int node) {
        members[node].relay(control::RelayChannel::vouching, 0, 0,
                            vouching::encode_addresses({{9}}));
    };
    tell(1);
    ask();
    tell(1);  // twice is not all of them
    ask();
    CHECK(verdicts.empty());
    tell(2);
    io.restart();
    io.poll();
    CHECK(verdicts == std::vector<bool>{false, false});
    ask();
    CHECK(verdicts.size() == 3);
}

TEST_CASE("only the node that was asked can answer") {
    asio::io_context io;
    PostedMembers members(io, 3);
    ConnectionVouching head(io, members[0], 0);
    const TcpEnds ends{.near = {{}, 1}, .far = {{1}, 2}};
    bool called = false;
    members[1].relay(control::RelayChannel::vouching, 0, 0,
                     vouching::encode_addresses({ends.far.address}));
    io.poll();
    head.ask(ends, [&](bool) { called = true; });
    for (std::uint64_t ticket = 0; ticket < 4; ++ticket)
        members[2].relay(control::RelayChannel::vouching, 0, 0,
                         vouching::encode_answer(ticket, true));
    io.restart();
    io.poll();
    CHECK_FALSE(called);
}

TEST_CASE("messages come back as they were, and what is none is nothing") {
    const TcpEnds ends{.near = {{1, 2, 3}, 80}, .far = {{4, 5, 6}, 65535}};
    const std::string question = vouching::encode_question(7, ends);
    CHECK(vouching::parse_question(question)->ends == ends);
    CHECK(vouching::parse_question(question)->ticket == 7);
    const std::string answer = vouching::encode_answer(9, true);
    CHECK(vouching::parse_answer(answer)->ticket == 9);
    CHECK(vouching::parse_answer(answer)->is_ours);
    const std::vector<vouching::Address> addresses = {{1}, {2}};
    const std::string told = vouching::encode_addresses(addresses);
    CHECK(vouching::parse_addresses(told) == addresses);
    for (const std::string& whole : {question, answer, told}) {
        for (const std::string& bad :
             {whole + "x", whole.substr(0, whole.size() - 1), std::string(), std::string("?")}) {
            CHECK_FALSE(vouching::parse_question(bad).has_value());
            CHECK_FALSE(vouching::parse_answer(bad).has_value());
            CHECK_FALSE(vouching::parse_addresses(bad).has_value());
        }
    }
}

}  // namespace connection_vouching_test
