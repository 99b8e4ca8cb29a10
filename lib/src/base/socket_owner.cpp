#include "base/socket_owner.hpp"

#include "base/file_io.hpp"
#include "base/unique_fd.hpp"

#include <autolaunch/error.hpp>

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

namespace autolaunch {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
constexpr std::size_t kIpv4At = kMapped.size();

struct Socket {
    uid_t owner = 0;
    std::uint64_t inode = 0;
};

std::optional<uid_t> owner_of(const std::optional<Socket>& socket) {
    return socket ? std::optional(socket->owner) : std::nullopt;
}

// The kernel's numbers. A connection whose process has closed it has no inode any more.
constexpr unsigned kEstablished = 1, kFinWait1 = 4, kFinWait2 = 5, kCloseWait = 8;

bool is_open_connection(unsigned state, std::uint64_t inode) {
    const bool connected =
        state == kEstablished || state == kFinWait1 || state == kFinWait2 || state == kCloseWait;
    return connected && inode != 0;
}

std::uint32_t interface_of(const sockaddr_storage& address) {
    if (address.ss_family != AF_INET6)
        return 0;
    return reinterpret_cast<const sockaddr_in6&>(address).sin6_scope_id;
}

// ---- NETLINK_SOCK_DIAG

struct Question {
    nlmsghdr header;
    inet_diag_req_v2 body;
};

void put_address(const TcpEnd& end, __be32 (&to)[4], __be16& port) {
    const std::size_t skipped = end.is_ipv4() ? kIpv4At : 0;
    std::memcpy(to, end.address.data() + skipped, end.address.size() - skipped);
    port = htons(end.port);
}

Question question_about(const TcpEnds& ends) {
    Question question{};
    question.header.nlmsg_len = sizeof question;
    question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    question.header.nlmsg_flags = NLM_F_REQUEST;  // one socket: no NLM_F_DUMP
    question.body.sdiag_family = ends.near.is_ipv4() && ends.far.is_ipv4() ? AF_INET : AF_INET6;
    question.body.sdiag_protocol = IPPROTO_TCP;
    question.body.idiag_states = ~0U;
    put_address(ends.near, question.body.id.idiag_src, question.body.id.idiag_sport);
    put_address(ends.far, question.body.id.idiag_dst, question.body.id.idiag_dport);
    question.body.id.idiag_if = ends.interface;
    question.body.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
    question.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    return question;
}

TcpEnd answered_end(unsigned family, const __be32 (&address)[4], __be16 port) {
    TcpEnd end;
    end.port = ntohs(port);
    if (family == AF_INET) {
        std::copy(kMapped.begin(), kMapped.end(), end.address.begin());
        std::memcpy(end.address.data() + kIpv4At, address, sizeof address[0]);
    } else {
        std::memcpy(end.address.data(), address, sizeof address);
    }
    return end;
}

// For lack of the connection the kernel answers with a listener of the port, whose far end is
// nothing: only the four that were asked for count.
std::optional<Socket> socket_in(const inet_diag_msg& found, const TcpEnds& ends) {
    const bool same =
        answered_end(found.idiag_family, found.id.idiag_src, found.id.idiag_sport) == ends.near &&
        answered_end(found.idiag_family, found.id.idiag_dst, found.id.idiag_dport) == ends.far;
    if (!same || !is_open_connection(found.idiag_state, found.idiag_inode))
        return std::nullopt;
    return Socket{found.idiag_uid, found.idiag_inode};
}

UniqueFd ask_kernel(const TcpEnds& ends) {
    UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    const Question question = question_about(ends);
    const timeval longest{5, 0};  // the kernel answers within the call that asks
    if (!socket ||
        ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest) != 0 ||
        ::send(socket.get(), &question, sizeof question, 0) != sizeof question)
        return UniqueFd();
    return socket;
}

enum class Told { answer, nothing_there, not_served };

Told ask_by_diag(const TcpEnds& ends, std::optional<Socket>& socket_there) {
    const UniqueFd socket = ask_kernel(ends);
    if (!socket)
        return Told::not_served;
    alignas(nlmsghdr) std::array<char, 4096> bytes{};
    ssize_t count = -1;
    do {
        count = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    } while (count < 0 && errno == EINTR);
    nlmsghdr header{};
    if (count < static_cast<ssize_t>(sizeof header))
        return Told::not_served;
    std::memcpy(&header, bytes.data(), sizeof header);
    const char* const body = bytes.data() + NLMSG_HDRLEN;
    const auto body_bytes = static_cast<std::size_t>(count) - NLMSG_HDRLEN;
    if (header.nlmsg_type == NLMSG_ERROR && body_bytes >= sizeof(nlmsgerr)) {
        nlmsgerr error{};
        std::memcpy(&error, body, sizeof error);
        // A kernel without tcp_diag says ENOENT, too, as one that finds no such connection.
        return error.error == -ENOENT ? Told::nothing_there : Told::not_served;
    }
    if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || body_bytes < sizeof(inet_diag_msg))
        return Told::not_served;
    inet_diag_msg found{};
    std::memcpy(&found, body, sizeof found);
    socket_there = socket_in(found, ends);
    return Told::answer;
}

// ---- /proc/net

/// "0100007F:1F90": the address as the kernel's 32-bit numbers, in the machine's byte order.
std::string table_text(const TcpEnd& end, bool of_ipv6) {
    std::string text;
    char part[16];
    for (std::size_t at = of_ipv6 ? 0 : kIpv4At; at < end.address.size(); at += 4) {
        std::uint32_t number = 0;
        std::memcpy(&number, end.address.data() + at, sizeof number);
        std::snprintf(part, sizeof part, "%08X", number);
        text += part;
    }
    std::snprintf(part, sizeof part, ":%04X", static_cast<unsigned>(end.port));
    return text + part;
}

// " 0: LOCAL REMOTE ST TX:RX TR:WHEN RETRANSMITS UID TIMEOUT INODE …"
std::optional<Socket> socket_in_line(const std::string& line, const std::string& wanted) {
    const std::size_t at = line.find(wanted);
    if (at == std::string::npos)
        return std::nullopt;
    unsigned state = 0, uid = 0;
    unsigned long long inode = 0;
    const int read = std::sscanf(line.c_str() + at + wanted.size(),
                                 "%x %*x:%*x %*x:%*x %*x %u %*u %llu", &state, &uid, &inode);
    if (read != 3 || !is_open_connection(state, inode))
        return std::nullopt;
    return Socket{uid, inode};
}

std::optional<Socket> socket_in_table(std::string_view table, bool of_ipv6, const TcpEnds& ends) {
    if (!of_ipv6 && !(ends.near.is_ipv4() && ends.far.is_ipv4()))
        return std::nullopt;
    const std::string wanted =
        " " + table_text(ends.near, of_ipv6) + " " + table_text(ends.far, of_ipv6) + " ";
    while (!table.empty()) {
        const std::size_t end = std::min(table.find('\n'), table.size());
        if (const auto found = socket_in_line(std::string(table.substr(0, end)), wanted))
            return found;
        table.remove_prefix(std::min(end + 1, table.size()));
    }
    return std::nullopt;
}

std::optional<Socket> ask_tables(const TcpEnds& ends) {
    bool any_read = false;
    int reason = 0;
    for (const bool of_ipv6 : {false, true}) {
        try {
            const std::string table = read_file(of_ipv6 ? "/proc/net/tcp6" : "/proc/net/tcp");
            any_read = true;
            if (const auto found = socket_in_table(table, of_ipv6, ends))
                return found;
        } catch (const SystemError& error) {  // there is no tcp6 where there is no IPv6
            reason = error.error_number();
        }
    }
    if (any_read)
        return std::nullopt;
    throw SystemError(reason, "learn from the kernel whose a TCP connection is",
                      "neither NETLINK_SOCK_DIAG nor /proc/net/tcp can be read here: mount /proc, "
                      "or allow netlink sockets");
}

std::optional<Socket> find_socket(const TcpEnds& ends) {
    std::optional<Socket> found, own;
    const Told told = ask_by_diag(ends, found);
    if (told == Told::answer)
        return found;
    // Where the kernel knows our own end, it answers, and the other is really not there. The tables
    // hold every connection of the machine: nobody is to make us read them at will.
    if (told == Told::nothing_there && ask_by_diag(ends.seen_from_far(), own) == Told::answer)
        return std::nullopt;
    return ask_tables(ends);
}

}  // namespace

bool TcpEnd::is_ipv4() const { return std::equal(kMapped.begin(), kMapped.end(), address.begin()); }

bool TcpEnd::is_loopback() const {
    constexpr std::array<std::uint8_t, 16> kLoopback6 = {0, 0, 0, 0, 0, 0, 0, 0,
                                                         0, 0, 0, 0, 0, 0, 0, 1};
    return is_ipv4() ? address[kIpv4At] == 127 : address == kLoopback6;
}

std::optional<TcpEnd> tcp_end(const sockaddr& address) {
    TcpEnd end;
    if (address.sa_family == AF_INET) {
        const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
        std::copy(kMapped.begin(), kMapped.end(), end.address.begin());
        std::memcpy(end.address.data() + kIpv4At, &ipv4.sin_addr, sizeof ipv4.sin_addr);
        end.port = ntohs(ipv4.sin_port);
        return end;
    }
    if (address.sa_family != AF_INET6)
        return std::nullopt;
    const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address);
    std::memcpy(end.address.data(), &ipv6.sin6_addr, sizeof ipv6.sin6_addr);
    end.port = ntohs(ipv6.sin6_port);
    return end;
}

std::string text_of(const TcpEnd& end) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const void* const address = end.address.data() + (end.is_ipv4() ? kIpv4At : 0);
    ::inet_ntop(end.is_ipv4() ? AF_INET : AF_INET6, address, text.data(), text.size());
    return text.data();
}

std::optional<TcpEnds> tcp_ends(int socket) {
    sockaddr_storage own{}, peer{};
    socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_bytes) != 0 ||
        ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) != 0)
        return std::nullopt;
    TcpEnds ends;
    const auto near = tcp_end(reinterpret_cast<const sockaddr&>(own));
    const auto far = tcp_end(reinterpret_cast<const sockaddr&>(peer));
    ends.interface = std::max(interface_of(own), interface_of(peer));
    if (!near || !far)
        return std::nullopt;
    ends.near = *near;
    ends.far = *far;
    return ends;
}

std::optional<uid_t> tcp_owner(const TcpEnds& ends) { return owner_of(find_socket(ends)); }

std::optional<std::uint64_t> tcp_inode(const TcpEnds& ends) {
    const auto found = find_socket(ends);
    return found ? std::optional(found->inode) : std::nullopt;
}

bool is_peer_of_own_user(int socket) {
    const auto ends = tcp_ends(socket);
    if (!ends)
        return false;
    try {
        return tcp_owner(ends->seen_from_far()) == ::geteuid();
    } catch (const Error&) {
        return false;
    }
}

std::optional<uid_t> tcp_owner_in_table(std::string_view table, bool of_ipv6, const TcpEnds& ends) {
    return owner_of(socket_in_table(table, of_ipv6, ends));
}

}  // namespace autolaunch
