#pragma once
#include <autolaunch/export.hpp>

#include <map>
#include <string>

namespace autolaunch {

/// Environment variables by name: a process's own, or captured ones.
using Environment = std::map<std::string, std::string>;

/// Of this process.
AUTOLAUNCH_API Environment environment_of_process();
/// The variable's value; empty where it is not set.
AUTOLAUNCH_API std::string value_of(const Environment& environment, const char* name);

}  // namespace autolaunch
