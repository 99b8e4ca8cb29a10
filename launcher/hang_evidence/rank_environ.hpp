#pragma once
#include <algorithm>
#include <cstddef>
#include <string_view>

namespace autolaunch::launcher {

/// A variable of a process, of the text of /proc/PID/environ; empty: it has none. Pure.
inline std::string_view environ_variable(std::string_view variables, std::string_view name) {
    for (std::size_t at = 0; at < variables.size();) {
        const std::size_t end = std::min(variables.find('\0', at), variables.size());
        const std::string_view entry = variables.substr(at, end - at);
        if (entry.starts_with(name) && entry.substr(name.size()).starts_with('='))
            return entry.substr(name.size() + 1);
        at = end + 1;
    }
    return {};
}

}  // namespace autolaunch::launcher
