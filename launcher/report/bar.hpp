#pragma once
#include <string>

namespace autolaunch::launcher {

/// "━━━━╸────": `done` of 1, `columns` wide.
std::string draw_bar(double done, int columns);

}  // namespace autolaunch::launcher
