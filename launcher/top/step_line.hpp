#pragma once
#include "report/event.hpp"

#include <optional>
#include <string_view>

namespace autolaunch::launcher {

/// A line of events that is a step in the form in which to_json_line() writes it: read without a
/// parser, for such lines are most of a file of gigabytes. Nothing for any other line, also for
/// one that says the same in another form. Pure.
std::optional<Event> parse_step_line(std::string_view line);

/// The moment of a line that begins as to_json_line()'s and a sampler's do. Pure.
std::optional<std::chrono::sys_time<std::chrono::milliseconds>> time_of_line(std::string_view line);

}  // namespace autolaunch::launcher
