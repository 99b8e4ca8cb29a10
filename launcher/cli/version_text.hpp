#pragma once
#include <string>

namespace autolaunch::launcher {

/// What this program was built from, and with: a line each.
std::string version_text();
/// The same (docs/json-output.md).
std::string version_json();

}  // namespace autolaunch::launcher
