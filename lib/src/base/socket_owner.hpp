#pragma once
#include <autolaunch/export.hpp>

#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch {

/// One end of a TCP connection. IPv4 is kept as IPv6 has it (::ffff:a.b.c.d), so one address has
/// one form.
struct TcpEnd {
    std::array<std::uint8_t, 16> address{};
    std::uint16_t port = 0;

    bool operator==(const TcpEnd&) const = default;
    bool is_ipv4() const;
    bool is_loopback() const;
};

/// A connection, as the process that has its `near` end sees it.
struct TcpEnds {
    TcpEnd near, far;
    std::uint32_t interface = 0;  ///< of a link-local address; else 0

    bool operator==(const TcpEnds&) const = default;
    TcpEnds seen_from_far() const { return {far, near, interface}; }
};

/// Of a socket address of IPv4 or IPv6; nothing for other families.
AUTOLAUNCH_API std::optional<TcpEnd> tcp_end(const sockaddr& address);

/// Its address, as people write it; without the port.
AUTOLAUNCH_API std::string text_of(const TcpEnd& end);

/// Of a connected socket. Nothing where it is none: the other end has gone meanwhile.
AUTOLAUNCH_API std::optional<TcpEnds> tcp_ends(int socket);

/// The user whose process has the `near` end open, as the kernel of this machine says: the socket
/// with exactly these addresses and ports, in this network namespace, connected. Nothing when there
/// is none: it is closed, or on another machine. Throws SystemError when the kernel tells nobody.
///
/// The user is whoever made the socket; a process that it was passed to does not count. What the
/// kernel keeps of a closed connection says uid 0 and is nobody's. In a user namespace, users that
/// have no number there are the overflow uid (65534).
AUTOLAUNCH_API std::optional<uid_t> tcp_owner(const TcpEnds& ends);

/// The number by which /proc/PID/fd names the socket at the `near` end, "socket:[NUMBER]". As
/// tcp_owner() otherwise.
AUTOLAUNCH_API std::optional<std::uint64_t> tcp_inode(const TcpEnds& ends);

/// Whether a process of our own user (geteuid()) has the other end of `socket`, on this machine.
/// False, too, when the kernel does not tell.
AUTOLAUNCH_API bool is_peer_of_own_user(int socket);

/// The same of the text of /proc/net/tcp or tcp6, for kernels without NETLINK_SOCK_DIAG. Pure.
AUTOLAUNCH_API std::optional<uid_t> tcp_owner_in_table(std::string_view table, bool of_ipv6,
                                                       const TcpEnds& ends);

}  // namespace autolaunch
