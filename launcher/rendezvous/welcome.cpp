#include "rendezvous/welcome.hpp"

#include "allocation/hostlist.hpp"

#include <autolaunch/error.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace autolaunch::launcher {

namespace {

// Slurm's: "8(x3),4"
std::string compress_counts(const std::vector<RosterNode>& nodes) {
    std::string text;
    for (std::size_t first = 0; first < nodes.size();) {
        std::size_t end = first;
        while (end < nodes.size() && nodes[end].ranks == nodes[first].ranks)
            ++end;
        if (!text.empty())
            text += ',';
        text += std::to_string(nodes[first].ranks);
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
    return {roster.self, roster.run_name, compress_hostlist(names), compress_counts(roster.nodes)};
}

Roster read_welcome(const control::Welcome& welcome) {
    const auto names = expand_hostlist(welcome.nodes);
    const auto ranks = expand_counts(welcome.ranks);
    if (names.size() != ranks.size() || welcome.self < 0 ||
        static_cast<std::size_t>(welcome.self) >= names.size())
        throw Error(ErrorCode::corrupt, "the head's list of nodes is not whole");
    Roster roster;
    roster.self = welcome.self;
    roster.run_name = welcome.run_name;
    for (std::size_t node = 0; node < names.size(); ++node)
        roster.nodes.push_back({names[node], ranks[node]});
    return roster;
}

}  // namespace autolaunch::launcher
