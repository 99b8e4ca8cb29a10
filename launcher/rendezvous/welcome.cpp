#include "rendezvous/welcome.hpp"

#include "allocation/hostlist.hpp"

#include <autolaunch/error.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace autolaunch::launcher {

namespace {

// Slurm's: "8(x3),4"
std::string compress_counts(const std::vector<int>& counts) {
    std::string text;
    for (std::size_t first = 0; first < counts.size();) {
        std::size_t end = first;
        while (end < counts.size() && counts[end] == counts[first])
            ++end;
        if (!text.empty())
            text += ',';
        text += std::to_string(counts[first]);
        if (end - first > 1)
            text += "(x" + std::to_string(end - first) + ")";
        first = end;
    }
    return text;
}

}  // namespace

control::Welcome make_welcome(const Roster& roster) {
    std::vector<std::string> names;
    for (const auto& node : roster.nodes)
        names.push_back(node.name);
    return {roster.self,
            roster.run_name,
            compress_hostlist(names),
            compress_counts(roster.ranks_per_node()),
            {}};
}

control::Welcome make_late_welcome(const Roster& roster) {
    control::Welcome welcome = make_welcome(roster);
    welcome.now = std::move(welcome.ranks);
    welcome.ranks = compress_counts(roster.ranks_where_taking_part());
    return welcome;
}

Roster read_welcome(const control::Welcome& welcome) {
    const auto names = expand_hostlist(welcome.nodes);
    const auto ranks = expand_counts(welcome.ranks);
    const auto now = welcome.now.empty() ? ranks : expand_counts(welcome.now);
    if (now.size() != ranks.size())
        throw Error(ErrorCode::corrupt, "the head's lists of ranks are not of the same nodes");
    if (names.size() != ranks.size() || welcome.self < 0 ||
        static_cast<std::size_t>(welcome.self) >= names.size())
        throw Error(ErrorCode::corrupt, "the head's list of nodes is not whole");
    Roster roster;
    roster.self = welcome.self;
    roster.run_name = welcome.run_name;
    for (std::size_t node = 0; node < names.size(); ++node)
        roster.nodes.push_back({names[node], now[node], ranks[node] - now[node]});
    return roster;
}

}  // namespace autolaunch::launcher
