#pragma once
#include "base/deadline.hpp"
#include "base/unique_fd.hpp"

#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace autolaunch::store {

/// "host:port", an IPv6 address in brackets.
AUTOLAUNCH_API std::string join_host_port(const std::string& host, std::uint16_t port);

/// The host's first address, numeric. Only a name is looked up. Blocks until the deadline at most;
/// throws TimeoutError and Error{closed}.
AUTOLAUNCH_API std::string numeric_address(const std::string& host, const Deadline& deadline);

/// A TCP connection whose every call ends by a deadline.
///
/// Owner: the store's client. Threads: one at a time. Blocks: every call, until done or the
/// deadline. Throws TimeoutError, Error{closed} when the peer went away, and SystemError.
class Connection {
public:
    /// One attempt over all addresses of the host: a name, or an IPv4 or IPv6 address without
    /// brackets.
    Connection(const std::string& host, std::uint16_t port, const Deadline& deadline);

    void send(std::string_view bytes, const Deadline& deadline);
    /// Calls that wait, and all later ones, throw Error{closed}. Any thread.
    void shut_down() const noexcept;
    /// Exactly `bytes` bytes.
    std::string receive(std::size_t bytes, const Deadline& deadline);

private:
    void wait_for(short events, const Deadline& deadline, const char* doing);

    UniqueFd socket_;
    std::string peer_;
};

}  // namespace autolaunch::store
