#pragma once
#include "report/event.hpp"

#include <string>

namespace autolaunch::launcher {

/// The event as one line of JSON without its newline; docs/events.md describes it. Pure. Bytes that
/// are not UTF-8 become U+FFFD; a field that is not known is left out.
std::string to_json_line(const Event& event);

}  // namespace autolaunch::launcher
