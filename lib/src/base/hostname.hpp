#pragma once
#include <autolaunch/export.hpp>

#include <string>

namespace autolaunch {

/// gethostname(2): as the node calls itself, with or without its domain.
AUTOLAUNCH_API std::string hostname();

}  // namespace autolaunch
