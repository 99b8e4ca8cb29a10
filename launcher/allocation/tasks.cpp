#include "allocation/tasks.hpp"

#include "allocation/adapters.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
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
std::optional<Names> renumbered(const std::vector<TaskGrant>& tasks, GpuRuntime runtime) {
    EnvironmentMap unmasked = tasks.front().environment;
    for (const char* variable :
         {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}) {
        if (runtime == GpuRuntime::cuda && variable != std::string_view("CUDA_VISIBLE_DEVICES"))
            continue;
        if (lookup(unmasked, variable).value_or("0") != "0")
            return std::nullopt;
        unmasked.erase(variable);
    }
    const GpuGrant of_step = read_granted_gpus(unmasked, runtime);
    if (!of_step.names || of_step.names->size() != tasks.size())
        return std::nullopt;
    return of_step.names;
}

void merge_gpus(GpuGrant& own, const std::vector<TaskGrant>& tasks, GpuRuntime runtime) {
    std::vector<Names> gpus;
    for (const TaskGrant& task : tasks)
        if (auto names = read_granted_gpus(task.environment, runtime).names)
            gpus.push_back(std::move(*names));
    if (gpus.size() != tasks.size() || tasks.size() < 2)
        return;
    if (!all_equal(gpus)) {
        own.names = union_of(gpus);
    } else if (auto names = renumbered(tasks, runtime)) {
        own.names = std::move(names);
    }
}

}  // namespace

Allocation merge_tasks(Allocation own, const std::vector<TaskGrant>& tasks) {
    merge_gpus(own.gpus, tasks, GpuRuntime::cuda);
    merge_gpus(own.rocm_gpus, tasks, GpuRuntime::rocm);
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
