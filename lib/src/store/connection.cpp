#include "store/connection.hpp"

#include "base/ask_in_time.hpp"

#include <autolaunch/error.hpp>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace autolaunch::store {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

struct LookUp {
    int status = 0;
    AddressList addresses{nullptr, &freeaddrinfo};
};

LookUp look_up(const std::string& host, std::uint16_t port, int flags) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV | flags;
    addrinfo* found = nullptr;
    LookUp result;
    result.status = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (result.status == 0)
        result.addresses.reset(found);
    return result;
}

/// The resolver keeps its own time, which may be minutes, and cannot be interrupted. So it runs on
/// a thread that is left behind when the deadline passes; what they share outlives both.
LookUp look_up_by(const Deadline& deadline, const std::string& host, std::uint16_t port) {
    if (auto found = ask_in_time([host, port] { return look_up(host, port, 0); }, deadline))
        return std::move(*found);
    throw TimeoutError("the store's host " + host + " could not be looked up in time",
                       "the resolver does not answer; a numeric MASTER_ADDR needs none");
}

AddressList resolve(const std::string& host, std::uint16_t port, const Deadline& deadline) {
    LookUp found = look_up(host, port, AI_NUMERICHOST);
    if (found.status != 0)
        found = look_up_by(deadline, host, port);
    if (found.status == 0)
        return std::move(found.addresses);
    const std::string reason =
        found.status == EAI_SYSTEM ? "the system's resolver failed" : gai_strerror(found.status);
    throw Error(ErrorCode::closed, "cannot look up the store's host " + host + ": " + reason,
                "check MASTER_ADDR, or use a numeric address");
}

/// An address that does not answer leaves time for those after it.
Deadline share_of(const Deadline& deadline, const addrinfo* address) {
    int left = 0;
    for (; address != nullptr; address = address->ai_next)
        ++left;
    return Deadline::after(deadline.remaining() / std::max(left, 1));
}

/// 0, or the errno of the attempt.
int connect_once(UniqueFd& socket, const addrinfo& address, const Deadline& deadline) {
    socket.reset(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket)
        return errno;
    if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    pollfd waiting{socket.get(), POLLOUT, 0};
    int ready = 0;
    do {
        ready = ::poll(&waiting, 1, deadline.poll_timeout_ms());
    } while (ready < 0 && errno == EINTR);
    if (ready < 0)
        return errno;
    if (ready == 0)
        return ETIMEDOUT;
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    return error;
}

/// Connecting to a free port of this machine can by chance meet itself (TCP simultaneous open): no
/// server there.
bool is_own_end(int socket) {
    sockaddr_storage own{};
    sockaddr_storage peer{};
    socklen_t own_length = sizeof own;
    socklen_t peer_length = sizeof peer;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_length) != 0)
        return false;
    if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0)
        return false;
    const auto* left = reinterpret_cast<const char*>(&own);
    const auto* right = reinterpret_cast<const char*>(&peer);
    return own_length == peer_length && std::equal(left, left + own_length, right);
}

}  // namespace

std::string join_host_port(const std::string& host, std::uint16_t port) {
    const bool literal = host.find(':') != std::string::npos;
    return (literal ? "[" + host + "]:" : host + ":") + std::to_string(port);
}

std::string numeric_address(const std::string& host, const Deadline& deadline) {
    const auto addresses = resolve(host, 0, deadline);
    char text[NI_MAXHOST] = {};
    const int status = getnameinfo(addresses->ai_addr, addresses->ai_addrlen, text, sizeof text,
                                   nullptr, 0, NI_NUMERICHOST);
    if (status == 0)
        return text;
    throw Error(ErrorCode::closed,
                "the store's host " + host + " has no numeric address: " + gai_strerror(status));
}

Connection::Connection(const std::string& host, std::uint16_t port, const Deadline& deadline)
    : peer_(join_host_port(host, port)) {
    const auto addresses = resolve(host, port, deadline);
    int error = EHOSTUNREACH;
    for (const addrinfo* address = addresses.get(); address != nullptr;
         address = address->ai_next) {
        error = connect_once(socket_, *address, share_of(deadline, address));
        if (error == 0 && is_own_end(socket_.get()))
            error = ECONNREFUSED;
        if (error != 0)
            continue;
        const int on = 1;
        ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        ::setsockopt(socket_.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        return;
    }
    throw SystemError(error, "connect to the store at " + peer_);
}

void Connection::wait_for(short events, const Deadline& deadline, const char* doing) {
    pollfd waiting{socket_.get(), events, 0};
    while (true) {
        const int ready = ::poll(&waiting, 1, deadline.poll_timeout_ms());
        if (ready > 0)
            return;
        if (ready < 0 && errno != EINTR)
            throw SystemError(errno, std::string("wait for the store at ") + peer_);
        if (deadline.passed())
            throw TimeoutError("the store at " + peer_ + " " + doing);
    }
}

void Connection::send(std::string_view bytes, const Deadline& deadline) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent >= 0) {
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        } else if (errno == EAGAIN) {
            wait_for(POLLOUT, deadline, "does not take requests");
        } else if (errno != EINTR) {
            throw Error(
                ErrorCode::closed, "the store at " + peer_ + " went away",
                "the process that serves it has ended; its own error is the one to look at");
        }
    }
}

void Connection::shut_down() const noexcept { ::shutdown(socket_.get(), SHUT_RDWR); }

std::string Connection::receive(std::size_t bytes, const Deadline& deadline) {
    constexpr std::size_t kStep = 1U
                                  << 20;  // grows with what arrives, not with what a peer announces
    std::string data;
    std::size_t have = 0;
    while (have < bytes) {
        if (data.size() == have)
            data.resize(std::min(bytes, have + kStep));
        const ssize_t got = ::recv(socket_.get(), data.data() + have, data.size() - have, 0);
        if (got > 0) {
            have += static_cast<std::size_t>(got);
        } else if (got < 0 && errno == EAGAIN) {
            wait_for(POLLIN, deadline, "did not answer in time");
        } else if (got == 0 || errno != EINTR) {
            throw Error(ErrorCode::closed, "the store at " + peer_ + " closed the connection",
                        "the process that serves it has ended, or refused the request");
        }
    }
    return data;
}

}  // namespace autolaunch::store
