// Whose the other end of a TCP connection is: real sockets of two users.
#include "base/socket_owner.hpp"
#include "base/unique_fd.hpp"
#include "other_user.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

namespace socket_owner_test {

using namespace autolaunch;
using autolaunch::testing::as_other_user;
using autolaunch::testing::can_be_other_user;
using autolaunch::testing::kOtherUser;

namespace {

struct Address {
    sockaddr_storage storage{};
    socklen_t bytes = 0;
    sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Address address_of(int family, const char* text, in_port_t port) {
    Address address;
    address.storage.ss_family = static_cast<sa_family_t>(family);
    if (family == AF_INET) {
        auto& ipv4 = reinterpret_cast<sockaddr_in&>(address.storage);
        ::inet_pton(AF_INET, text, &ipv4.sin_addr);
        ipv4.sin_port = port;
        address.bytes = sizeof ipv4;
    } else {
        auto& ipv6 = reinterpret_cast<sockaddr_in6&>(address.storage);
        ::inet_pton(AF_INET6, text, &ipv6.sin6_addr);
        ipv6.sin6_port = port;
        address.bytes = sizeof ipv6;
    }
    return address;
}

/// A listener, and a connection to it.
struct Meeting {
    /// `from`, "127.0.0.1" or so, connects to a listener of its own family or of IPv6 for both.
    Meeting(int listening, const char* at, int calling, const char* to, bool by_other_user) {
        listener = UniqueFd(::socket(listening, SOCK_STREAM | SOCK_CLOEXEC, 0));
        Address any = address_of(listening, at, 0);
        const int off = 0;
        if (listening == AF_INET6)
            ::setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        if (::bind(listener.get(), any.get(), any.bytes) != 0 || ::listen(listener.get(), 4) != 0)
            return;
        ::getsockname(listener.get(), any.get(), &any.bytes);
        const in_port_t port = listening == AF_INET
                                   ? reinterpret_cast<sockaddr_in&>(any.storage).sin_port
                                   : reinterpret_cast<sockaddr_in6&>(any.storage).sin6_port;
        const auto call = [&] {
            caller = UniqueFd(::socket(calling, SOCK_STREAM | SOCK_CLOEXEC, 0));
            Address there = address_of(calling, to, port);
            connected = ::connect(caller.get(), there.get(), there.bytes) == 0;
        };
        by_other_user ? as_other_user(call) : call();
        if (connected)
            accepted = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    }
    UniqueFd listener, caller, accepted;
    bool connected = false;
};

const struct {
    int listening;
    const char* at;
    int calling;
    const char* to;
} kWays[] = {{AF_INET, "127.0.0.1", AF_INET, "127.0.0.1"},
             {AF_INET6, "::1", AF_INET6, "::1"},
             {AF_INET6, "::", AF_INET, "127.0.0.1"},
             {AF_INET6, "::", AF_INET6, "::ffff:127.0.0.1"}};

std::string table_of(const char* path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<uid_t> by_tables(const TcpEnds& ends) {
    const auto found = tcp_owner_in_table(table_of("/proc/net/tcp"), false, ends);
    return found ? found : tcp_owner_in_table(table_of("/proc/net/tcp6"), true, ends);
}

}  // namespace

TEST_CASE("the other end is ours where we made it, over IPv4, IPv6 and both at once") {
    for (const auto& way : kWays) {
        const Meeting meeting(way.listening, way.at, way.calling, way.to, false);
        if (!meeting.connected) {
            MESSAGE("not checked, there is no way: ", std::string(way.to));
            continue;
        }
        CAPTURE(way.to);
        CHECK(is_peer_of_own_user(meeting.accepted.get()));
        CHECK(is_peer_of_own_user(meeting.caller.get()));
        CHECK(by_tables(tcp_ends(meeting.accepted.get())->seen_from_far()) == ::geteuid());
    }
}

TEST_CASE("another user's end is his, by the kernel and by its tables") {
    if (!can_be_other_user())
        return;
    for (const auto& way : kWays) {
        const Meeting meeting(way.listening, way.at, way.calling, way.to, true);
        if (!meeting.connected)
            continue;
        CAPTURE(way.to);
        const TcpEnds ends = tcp_ends(meeting.accepted.get()).value();
        CHECK_FALSE(is_peer_of_own_user(meeting.accepted.get()));
        CHECK(tcp_owner(ends.seen_from_far()) == kOtherUser);
        CHECK(by_tables(ends.seen_from_far()) == kOtherUser);
        CHECK(tcp_owner(ends) == ::geteuid());  // and the end here is ours
    }
}

TEST_CASE("who has closed is nobody, though the kernel calls him uid 0") {
    Meeting meeting(AF_INET, "127.0.0.1", AF_INET, "127.0.0.1", false);
    REQUIRE(meeting.connected);
    const TcpEnds theirs = tcp_ends(meeting.accepted.get())->seen_from_far();
    CHECK(tcp_owner(theirs).has_value());
    meeting.caller.reset();
    CHECK_FALSE(tcp_owner(theirs).has_value());
    CHECK_FALSE(by_tables(theirs).has_value());
    CHECK_FALSE(is_peer_of_own_user(meeting.accepted.get()));
    meeting.accepted.reset();
    CHECK_FALSE(tcp_owner(theirs).has_value());
}

TEST_CASE("a listener of the same port is no end of a connection") {
    Meeting meeting(AF_INET, "127.0.0.1", AF_INET, "127.0.0.1", false);
    REQUIRE(meeting.connected);
    TcpEnds ends = tcp_ends(meeting.accepted.get()).value();
    ends.far.port = 1;
    CHECK_FALSE(tcp_owner(ends).has_value());
    CHECK_FALSE(tcp_owner({.near = {}, .far = {}}).has_value());
    CHECK_FALSE(is_peer_of_own_user(meeting.listener.get()));
    CHECK_FALSE(is_peer_of_own_user(-1));
}

}  // namespace socket_owner_test
