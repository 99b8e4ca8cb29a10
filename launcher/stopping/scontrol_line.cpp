#include "stopping/scontrol_line.hpp"

#include "base/clock_time.hpp"

#include <algorithm>
#include <ctime>

namespace autolaunch::launcher {

using std::chrono::system_clock;

// Where it is not whole, nothing else is to be taken for it: "Restarts=" also ends other names.
std::string scontrol_field(std::string_view line, std::string_view name) {
    const std::string start = std::string(name) + '=';
    for (std::size_t at = 0; at < line.size();) {
        const std::size_t end = std::min(line.find(' ', at), line.size());
        if (line.substr(at, end - at).starts_with(start))
            return std::string(line.substr(at + start.size(), end - at - start.size()));
        at = end + 1;
    }
    return {};
}

// "2026-11-23T12:40:01"; nothing for Unknown, None and N/A.
std::optional<system_clock::time_point> scontrol_time(const std::string& text) {
    std::tm local{};
    const char* const end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &local);
    if (end == nullptr || *end != '\0')
        return std::nullopt;
    local.tm_isdst = -1;
    const std::time_t at = std::mktime(&local);
    return at == -1 ? std::nullopt : std::optional(clock_time(at));
}

std::string clock_text(const std::optional<system_clock::time_point>& at) {
    if (!at)
        return "Unknown";
    const std::time_t whole = system_clock::to_time_t(*at);
    std::tm local{};
    ::localtime_r(&whole, &local);
    char text[16];
    std::strftime(text, sizeof text, "%H:%M:%S", &local);
    return text;
}

}  // namespace autolaunch::launcher
