#pragma once
#include <autolaunch/export.hpp>

#include <string>
#include <string_view>

namespace autolaunch {

/// Whether a host's name or address, without port, is of this machine alone: localhost and names
/// below it (RFC 6761), 127.0.0.0/8, ::1 (also in brackets). Names are not looked up. Pure.
AUTOLAUNCH_API bool is_loopback(std::string_view host);

/// Why what goes to and from this address could be read or changed on its way, in words; empty: it
/// could not, for it is https, or does not leave the machine. Pure.
AUTOLAUNCH_API std::string why_not_private(std::string_view url);

}  // namespace autolaunch
