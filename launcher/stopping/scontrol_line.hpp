#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// NAME=VALUE of a line of `scontrol show … -o`; empty where it is not there. Pure.
std::string scontrol_field(std::string_view line, std::string_view name);

/// "2026-11-23T12:40:01" in this machine's time zone; nothing for Unknown, None and N/A.
std::optional<std::chrono::system_clock::time_point> scontrol_time(const std::string& text);

/// "12:40:01", or "Unknown".
std::string clock_text(const std::optional<std::chrono::system_clock::time_point>& at);

}  // namespace autolaunch::launcher
