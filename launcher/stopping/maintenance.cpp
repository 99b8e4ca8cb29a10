#include "stopping/maintenance.hpp"

#include "allocation/hostlist.hpp"
#include "base/text.hpp"
#include "stopping/scontrol_line.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>

namespace autolaunch::launcher {

namespace {

std::string first_of_ours(const std::string& hostlist, const std::vector<std::string>& nodes) {
    try {
        for (const std::string& node : expand_hostlist(hostlist))
            if (std::find(nodes.begin(), nodes.end(), node) != nodes.end())
                return node;
    } catch (const Error&) {  // "(null)", or a form that we do not know: of no node of ours
    }
    return {};
}

}  // namespace

std::vector<std::string> maintenance_question() {
    return {"scontrol", "show", "reservation", "-o"};
}

std::optional<Maintenance> next_maintenance(std::string_view answer,
                                            const std::vector<std::string>& nodes,
                                            std::chrono::system_clock::time_point now) {
    std::optional<Maintenance> next;
    while (!answer.empty()) {
        const std::string_view line = answer.substr(0, answer.find('\n'));
        answer.remove_prefix(std::min(line.size() + 1, answer.size()));
        const auto flags = split(scontrol_field(line, "Flags"), ',');
        const auto starts_at = scontrol_time(scontrol_field(line, "StartTime"));
        if (std::find(flags.begin(), flags.end(), "MAINT") == flags.end() || !starts_at ||
            *starts_at <= now || (next && next->starts_at <= *starts_at))
            continue;
        const std::string node = first_of_ours(scontrol_field(line, "Nodes"), nodes);
        if (!node.empty())
            next = {scontrol_field(line, "ReservationName"), node, *starts_at};
    }
    return next;
}

}  // namespace autolaunch::launcher
