#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// What a machine says of a TCP port of its.
enum class Knock {
    open,     ///< somebody listens there
    refused,  ///< the machine is there, and says that nobody does
    silent    ///< it does not answer, or cannot be found
};
/// `host` is an address, or a name that this machine can look up. Port 0 is none: silent. Blocks: a
/// second for each address, and for a name as long as the resolver takes.
Knock knock(const std::string& host, std::uint16_t port);

/// "6818"; 0 where it is no port.
std::uint16_t port_from(std::string_view text);

}  // namespace autolaunch::launcher
