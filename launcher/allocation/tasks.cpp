#include "allocation/tasks.hpp"

#include "allocation/adapters.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace autolaunch::launcher {
namespace {

using Names = std::vector<std::string>;

bool all_equal(const std::vector<Names>& lists) {
    return std::all_of(lists.begin(), lists.end(),
                       [&](const Names& names) { return names == lists.front(); });
}

// In order of first appearance.
Names union_of(const std::vector<Names>& lists) {
    Names all;
    for (const Names& names : lists)
        for (const std::string& name : names)
            if (std::find(all.begin(), all.end(), name) == all.end())
                all.push_back(name);
    return all;
}

// Where Slurm confines each task to one device, every task sees its own as GPU 0: which of the
// step's that is, is told by the order of tasks alone.
std::optional<Names> renumbered(const std::vector<TaskGrant>& tasks) {
    EnvironmentMap unmasked = tasks.front().environment;
    for (const char* variable : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}) {
        if (lookup(unmasked, variable).value_or("0") != "0")
            return std::nullopt;
        unmasked.erase(variable);
    }
    const auto of_step = read_granted_gpus(unmasked);
    if (!of_step || of_step->names.size() != tasks.size())
        return std::nullopt;
    return of_step->names;
}

}  // namespace

Allocation merge_tasks(Allocation own, const std::vector<TaskGrant>& tasks) {
    std::vector<Names> gpus;
    for (const TaskGrant& task : tasks)
        if (auto granted = read_granted_gpus(task.environment))
            gpus.push_back(std::move(granted->names));
    if (!gpus.empty() && gpus.size() == tasks.size() && tasks.size() > 1) {
        if (!all_equal(gpus)) {
            own.granted_gpus = union_of(gpus);
        } else if (auto names = renumbered(tasks)) {
            own.granted_gpus = std::move(names);
        }
    }
    const bool own_cpus = std::any_of(tasks.begin(), tasks.end(), [&](const TaskGrant& task) {
        return task.cpus != tasks.front().cpus;
    });
    own.task_cpus.clear();
    if (own_cpus)
        for (const TaskGrant& task : tasks)
            own.task_cpus.push_back(task.cpus);
    return own;
}

std::vector<int> cpus_of_all(const std::vector<TaskGrant>& tasks) {
    std::set<int> cpus;
    for (const TaskGrant& task : tasks)
        cpus.insert(task.cpus.begin(), task.cpus.end());
    return {cpus.begin(), cpus.end()};
}

}  // namespace autolaunch::launcher
