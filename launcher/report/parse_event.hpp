#pragma once
#include "report/event.hpp"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string_view>

namespace autolaunch::launcher {

/// A line of events.jsonl, as to_json_line() wrote it; of another version's, what this one knows.
/// Nothing for an event that has no part in reports. Throws nlohmann's exceptions for what is no
/// event. Pure.
std::optional<Event> parse_event(const nlohmann::json& line);

/// "2026-01-31T12:00:00.042Z". Nothing for anything else. Pure.
std::optional<std::chrono::sys_time<std::chrono::milliseconds>> parse_event_time(
    std::string_view text);

}  // namespace autolaunch::launcher
