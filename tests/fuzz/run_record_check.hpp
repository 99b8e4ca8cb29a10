#pragma once
#include "base/json_nesting.hpp"
#include "report/parse_event.hpp"
#include "restart_policy/restart_history.hpp"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// A file of a run directory, whoever wrote it: each line an event or none, all of it a history of
/// restarts or none; and a history is written as one that reads the same. Aborts where that is not
/// so. How many events and histories there were.
inline std::size_t check_run_bytes(std::string_view bytes) {
    std::size_t found = 0;
    for (std::string_view rest = bytes; !rest.empty();) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(line.size() == rest.size() ? line.size() : line.size() + 1);
        if (!nests_at_most(line, 16))  // as who reads a run does
            continue;
        try {
            found += parse_event(nlohmann::json::parse(line)) ? 1 : 0;
        } catch (const nlohmann::json::exception&) {  // what it says it throws
        }
    }
    if (const auto history = restart_history_from(bytes)) {
        const auto again = restart_history_from(to_json(*history));
        if (!again || !(*again == *history))
            std::abort();
        ++found;
    }
    return found;
}

}  // namespace autolaunch::launcher
