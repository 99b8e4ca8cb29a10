#pragma once
// A client of the store that sends what bytes the test likes and reads with a deadline.
#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "store/protocol.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <vector>

namespace autolaunch::testing {

inline UniqueFd raw_peer(std::uint16_t port, int receive_buffer_bytes = 0) {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (receive_buffer_bytes > 0) {
        ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes,
                     sizeof receive_buffer_bytes);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
            0);
    return socket;
}

inline void raw_send(const UniqueFd& socket, const std::string& bytes) {
    REQUIRE(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
}

/// Exactly so many bytes; fewer when the peer closed the connection or said nothing for so long.
inline std::string raw_receive(const UniqueFd& socket, std::size_t bytes,
                               std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
    const auto deadline = Deadline::after(timeout);
    std::string got;
    pollfd waiting{socket.get(), POLLIN, 0};
    while (got.size() < bytes && ::poll(&waiting, 1, deadline.poll_timeout_ms()) > 0) {
        std::string part(bytes - got.size(), '\0');
        const ssize_t count = ::recv(socket.get(), part.data(), part.size(), 0);
        if (count <= 0)
            break;
        got.append(part, 0, static_cast<std::size_t>(count));
    }
    return got;
}

/// True when the peer closed the connection, false after 60 s.
inline bool is_closed_by_peer(const UniqueFd& socket) {
    const auto deadline = Deadline::after(std::chrono::seconds(60));
    pollfd waiting{socket.get(), POLLIN, 0};
    while (::poll(&waiting, 1, deadline.poll_timeout_ms()) > 0) {
        char byte = 0;
        if (::recv(socket.get(), &byte, 1, 0) <= 0)
            return true;
    }
    return false;
}

inline std::string request_bytes(store::Command command, std::vector<std::string> keys = {},
                                 std::vector<std::string> values = {}, std::int64_t number = 0) {
    std::string bytes;
    store::append_request(bytes, {command, std::move(keys), std::move(values), number});
    return bytes;
}

/// A client of the current dialect, by hand.
class RawClient {
public:
    explicit RawClient(std::uint16_t port, int receive_buffer_bytes = 0)
        : socket_(raw_peer(port, receive_buffer_bytes)) {
        send(request_bytes(store::Command::validate, {}, {}, store::kValidationMagic));
    }
    void send(const std::string& bytes) { raw_send(socket_, bytes); }
    std::string ask(const std::string& bytes, std::size_t reply_bytes) {
        send(bytes);
        return raw_receive(socket_, reply_bytes);
    }
    std::uint64_t ask_number(const std::string& bytes) {
        const std::string reply = ask(bytes, 8);
        REQUIRE(reply.size() == 8);
        return store::load_le(reply.data(), 8);
    }
    /// Whoever answers has read everything before.
    void sync() { REQUIRE(ask(request_bytes(store::Command::ping, {}, {}, 7), 4).size() == 4); }
    std::string receive(std::size_t bytes,
                        std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
        return raw_receive(socket_, bytes, timeout);
    }
    bool is_closed() { return is_closed_by_peer(socket_); }

private:
    UniqueFd socket_;
};

}  // namespace autolaunch::testing
