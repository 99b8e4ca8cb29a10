#include "session/task_counts.hpp"

#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <limits>

namespace autolaunch {
namespace {

bool parse_count(std::string_view text, long long& value) {
    return parse_integer(text, value) && value > 0 && value <= std::numeric_limits<int>::max();
}

/// "8(x3)" is 8 tasks on each of 3 nodes, "4" is 4 on one.
bool parse_group(std::string_view group, long long& tasks, long long& nodes) {
    nodes = 1;
    const std::size_t open = group.find('(');
    if (open == std::string_view::npos)
        return parse_count(group, tasks);
    const std::string_view repeat = group.substr(open);
    if (repeat.size() < 4 || repeat[1] != 'x' || repeat.back() != ')')
        return false;
    return parse_count(group.substr(0, open), tasks) &&
           parse_count(repeat.substr(2, repeat.size() - 3), nodes);
}

}  // namespace

int tasks_on_node(const std::string& variable, std::string_view counts, int node_rank) {
    long long first_node = 0;
    for (const std::string& group : split(counts, ',')) {
        long long tasks = 0;
        long long nodes = 0;
        if (!parse_group(group, tasks, nodes)) {
            throw Error(ErrorCode::invalid_argument,
                        variable + "=" + std::string(counts) + " is not a list like 8(x3),4",
                        "srun sets " + variable + "; do not change it");
        }
        first_node += nodes;
        if (node_rank < first_node)
            return static_cast<int>(tasks);
    }
    throw Error(ErrorCode::invalid_argument,
                variable + "=" + std::string(counts) + " has no node " + std::to_string(node_rank),
                "SLURM_NODEID and " + variable + " must come from the same srun");
}

}  // namespace autolaunch
