#include "allocation/slurm_nodes.hpp"

#include "allocation/adapters.hpp"
#include "allocation/hostlist.hpp"
#include "session/nesting.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace autolaunch::launcher {
namespace {

using Names = std::vector<std::string>;

// Slurm numbers its own steps from here up (batch script, interactive, extern): they are not
// srun's.
constexpr long long kFirstSpecialStep = 0xfffffff0;
constexpr long long kMostComponents = 1024;

// What an error about a variable's value says first.
template <typename Read>
auto read_value(const std::string& variable, const std::string& value, Read read) {
    try {
        return read(value);
    } catch (const Error& error) {
        throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", variable, error.what()));
    }
}

Names read_names(const EnvironmentMap& environment, const std::string& variable) {
    const auto value = lookup(environment, variable);
    if (!value || value->empty())
        return {};
    return read_value(variable, *value,
                      [](const std::string& text) { return expand_hostlist(text); });
}

// A step over several components of a heterogeneous job has one sorted list of nodes, while Slurm
// counts nodes and tasks component by component: so do we. The list as it is where the components
// do not explain it.
Names in_component_order(const EnvironmentMap& environment, const Names& names) {
    const long long components =
        std::min(lookup_count(environment, "SLURM_HET_SIZE").value_or(0), kMostComponents);
    std::unordered_map<std::string_view, bool> taken;
    for (const auto& name : names)
        taken.emplace(name, false);
    Names ordered;
    for (long long component = 0; component < components; ++component) {
        for (auto& name :
             read_names(environment, fmt::format("SLURM_JOB_NODELIST_HET_GROUP_{}", component))) {
            const auto found = taken.find(name);
            if (found == taken.end())
                continue;  // of a component that the step leaves out
            if (std::exchange(found->second, true))
                return names;
            ordered.push_back(std::move(name));
        }
    }
    return ordered.size() == names.size() ? ordered : names;
}

[[noreturn]] void refuse_list(const EnvironmentMap& environment, const std::string& variable,
                              const std::string& node_name) {
    const auto value = lookup(environment, variable);
    if (!value || value->empty()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("SLURM_JOB_ID is set, but {} is not", variable),
                    "start with srun; outside a job, say --standalone");
    }
    throw Error(ErrorCode::invalid_argument,
                fmt::format("this machine, {}, is not one of the job's nodes ({}={})", node_name,
                            variable, value->substr(0, 200)),
                "start with `srun autolaunch …`; to ignore the job, say --standalone");
}

std::optional<int> read_tasks(const EnvironmentMap& environment, std::size_t position) {
    for (const char* variable : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
        const auto value = lookup(environment, variable);
        if (!value)
            continue;
        const auto counts = read_value(variable, *value,
                                       [](const std::string& text) { return expand_counts(text); });
        if (position < counts.size())
            return counts[position];
    }
    return std::nullopt;
}

}  // namespace

std::optional<long long> read_srun_step(const EnvironmentMap& environment) {
    const auto step = lookup_count(environment, "SLURM_STEP_ID");
    if (!step || *step >= kFirstSpecialStep || told_last(environment) == ToldBy::sbatch)
        return std::nullopt;
    const auto differ = [&](const char* now, const char* of_step) {
        const auto a = lookup_count(environment, now), b = lookup_count(environment, of_step);
        return a && b && *a != *b;
    };
    const bool inherited = differ("SLURM_NNODES", "SLURM_STEP_NUM_NODES") ||
                           differ("SLURM_NTASKS", "SLURM_STEP_NUM_TASKS");
    return inherited ? std::nullopt : step;
}

SlurmNodes read_slurm_nodes(const EnvironmentMap& environment, const std::string& node_name) {
    SlurmNodes nodes;
    nodes.step = read_srun_step(environment);
    std::string variable = "SLURM_STEP_NODELIST";
    Names listed = nodes.step ? read_names(environment, variable) : Names{};
    auto position = find_host(listed, node_name);
    if (!position) {  // no step, or an inherited one on other nodes
        if (!listed.empty())
            nodes.step.reset();
        variable = "SLURM_JOB_NODELIST";
        listed = read_names(environment, variable);
        position = find_host(listed, node_name);
        if (!position)
            refuse_list(environment, variable, node_name);
    }
    const std::string name = listed[*position];
    if (std::count(listed.begin(), listed.end(), name) > 1) {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("{} is in {} twice: components of the job share it", name, variable),
            "let each node be in one component, or start each component with its own `srun "
            "--het-group=N`");
    }
    if (nodes.step) {
        nodes.tasks_on_node = read_tasks(environment, *position);
        listed = in_component_order(environment, listed);
    }
    nodes.names = std::move(listed);
    nodes.node_rank = static_cast<int>(std::find(nodes.names.begin(), nodes.names.end(), name) -
                                       nodes.names.begin());
    return nodes;
}

}  // namespace autolaunch::launcher
