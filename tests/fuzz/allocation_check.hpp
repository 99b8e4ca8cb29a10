#pragma once
#include "allocation/allocation.hpp"
#include "allocation/hostlist.hpp"
#include "allocation/kill_wait.hpp"
#include "allocation/machine_counts.hpp"
#include "allocation/slurm_conf.hpp"
#include "require.hpp"

#include <autolaunch/error.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace autolaunch::launcher {

namespace allocation_text {

/// Lines NAME=VALUE; after an empty line comes what each file has that a variable names.
inline std::pair<EnvironmentMap, std::string> parts_of(std::string_view bytes) {
    EnvironmentMap environment;
    while (!bytes.empty() && bytes.front() != '\n') {
        const std::string_view line = bytes.substr(0, bytes.find('\n'));
        bytes.remove_prefix(line.size() == bytes.size() ? line.size() : line.size() + 1);
        if (const std::size_t equals = line.find('='); equals != line.npos)
            environment[std::string(line.substr(0, equals))] = line.substr(equals + 1);
    }
    return {std::move(environment), std::string(bytes.substr(bytes.empty() ? 0 : 1))};
}

inline bool check_environment(const EnvironmentMap& environment, const std::string& file,
                              const NodeOptions& options) {
    try {
        const Allocation found = read_allocation(environment, "node1", options,
                                                 [&](const std::string&) { return file; });
        fuzz::require(!found.node_names.empty() && found.node_names.size() <= kMaxHosts &&
                      found.node_rank >= 0 &&
                      static_cast<std::size_t>(found.node_rank) < found.node_names.size() &&
                      found.local_task >= 0 && !found.source.empty());
        return found.source != "local";
    } catch (const Error& error) {
        fuzz::require(error.code() == ErrorCode::invalid_argument && *error.what() != '\0');
        return false;
    }
}

}  // namespace allocation_text

/// What a scheduler has set, and the files of hosts that it names: an allocation in which this node
/// has its place, or a refusal. Aborts where that is not so. Whether a scheduler was found.
inline bool check_allocation_bytes(std::string_view bytes) {
    using namespace allocation_text;
    const auto [environment, file] = parts_of(bytes);
    bool found = check_environment(environment, file, {});
    found |= check_environment(
        environment, file,
        {.nodes = 2, .nodes_given = true, .node_rank = 1, .head_address = "node0"});
    parse_slurm_conf(file);
    read_kill_wait(environment, [&file = file](const std::string&) { return file; });
    for (auto* count :
         {count_as_number, count_words, count_hosts_with_slots, count_lines, count_between_commas,
          count_between_semicolons, count_json_hosts, count_cluster_members})
        if (const auto number = count(file); number && count != count_as_number)
            fuzz::require(*number >= 0);
    return found;
}

}  // namespace autolaunch::launcher
