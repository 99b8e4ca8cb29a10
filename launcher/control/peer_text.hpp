#pragma once
#include "control/control_connection.hpp"

#include <asio/ip/tcp.hpp>

#include <string>

namespace autolaunch::launcher {

/// "10.0.0.1", of ::ffff:10.0.0.1, too.
std::string numeric_address(const asio::ip::tcp::endpoint& endpoint);

/// How a connection to `who` ended, in a sentence: "node2 (10.0.0.2) broke its connection:
/// connection reset by peer".
std::string describe_end(const std::string& who, const ConnectionEnd& end);

}  // namespace autolaunch::launcher
