#include "lint/node_descriptions.hpp"

#include "allocation/hostlist.hpp"
#include "lint/sbatch_script.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstddef>
#include <set>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostNodes = 100'000;

std::optional<long long> product(const ConfLine& line, std::initializer_list<const char*> names) {
    long long result = 1;
    bool any = false;
    for (const char* name : names) {
        if (!line.has(name))
            continue;
        const auto value = whole_number(line.value(name));
        if (!value || *value < 1 || *value > 1'000'000)
            return std::nullopt;
        result *= *value;
        any = true;
    }
    return any ? std::optional(result) : std::nullopt;
}

NodeDescription describe(const ConfLine& line) {
    NodeDescription node;
    node.line = line.line;
    const bool by_sockets = line.has("CoresPerSocket") || line.has("Sockets") || line.has("Boards");
    if (by_sockets)
        node.cores = product(line, {"Sockets", "CoresPerSocket"});
    node.cpus = line.has("CPUs") ? whole_number(line.value("CPUs"))
                                 : product(line, {"Sockets", "CoresPerSocket", "ThreadsPerCore"});
    node.memory_given = line.has("RealMemory");
    node.memory_mib = whole_number(line.value("RealMemory")).value_or(1);
    node.gpus = gres_gpu_count(line.value("Gres")).value_or(0);
    return node;
}

}  // namespace

std::vector<std::string> expand_or_nothing(const std::string& list) {
    try {
        auto names = expand_hostlist(list);
        if (names.size() > kMostNodes)
            names.clear();
        return names;
    } catch (const Error&) {
        return {};
    }
}

std::vector<NodeDescription> node_descriptions(const ConfFile& conf) {
    std::vector<NodeDescription> nodes;
    ConfLine defaults;
    for (const auto& line : conf.lines) {
        if (!line.has("NodeName") || line.has("Name"))
            continue;  // gres.conf has Name, too
        if (equals_ignoring_case(line.value("NodeName"), "DEFAULT")) {
            defaults = line;
            continue;
        }
        ConfLine whole = line;
        for (const auto& field : defaults.fields)
            if (!line.has(field.first))
                whole.fields.push_back(field);
        NodeDescription node = describe(whole);
        node.names = expand_or_nothing(line.value("NodeName"));
        nodes.push_back(std::move(node));
    }
    return nodes;
}

std::vector<NodeDescription> nodes_of_partition(const ConfFile& conf,
                                                const std::string& partition) {
    auto nodes = node_descriptions(conf);
    std::string listed;
    for (const auto& line : conf.lines) {
        const std::string name = line.value("PartitionName");
        const bool standard =
            partition.empty() && equals_ignoring_case(line.value("Default"), "YES");
        if (!name.empty() && (standard || name == partition))
            listed = line.value("Nodes");
    }
    if (listed.empty() || equals_ignoring_case(listed, "ALL"))
        return nodes;
    const auto members = expand_or_nothing(listed);
    const std::set<std::string> known(members.begin(), members.end());
    std::erase_if(nodes, [&](const NodeDescription& node) {
        return std::none_of(node.names.begin(), node.names.end(),
                            [&](const auto& name) { return known.contains(name); });
    });
    return nodes;
}

}  // namespace autolaunch::launcher
