#include "run/node_tasks.hpp"

#include "base/hostname.hpp"
#include "exit_codes/exit_codes.hpp"
#include "input/input_plan.hpp"
#include "rendezvous/join.hpp"
#include "spawn/keeper.hpp"
#include "tasks/stand_in.hpp"
#include "tasks/task_socket.hpp"
#include "topology/read_topology.hpp"

#include <unistd.h>

#include <chrono>
#include <utility>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;

// srun starts a node's tasks within milliseconds of each other; a node that swaps, or a prologue a
// task, takes longer.
constexpr auto kMeetingTimeout = 60s;

bool has_several_tasks(const Allocation& allocation) {
    return allocation.tasks_on_node.value_or(1) > 1;
}

// srun sends all of its stdin to every task. Only a rank that is to have it reads the agent's.
int copy_of_input(const Allocation& allocation) {
    const bool is_copy = allocation.source == "slurm" && can_pile_up(STDIN_FILENO);
    return is_copy ? STDIN_FILENO : -1;
}

std::vector<std::string> lines_of(const EnvironmentMap& environment) {
    std::vector<std::string> lines;
    for (const auto& [name, value] : environment)
        lines.push_back(name + "=" + value);
    return lines;
}

}  // namespace

bool is_stand_in(const Allocation& allocation) {
    return has_several_tasks(allocation) && allocation.local_task > 0;
}

bool looks_like_stand_in(const EnvironmentMap& environment) {
    try {
        return is_stand_in(read_allocation(environment, hostname()));
    } catch (const Error&) {
        return false;
    }
}

bool looks_like_later_node(const EnvironmentMap& environment) {
    try {
        const Allocation allocation = read_allocation(environment, hostname());
        return allocation.source == "slurm" && allocation.on_every_node && allocation.node_rank > 0;
    } catch (const Error&) {  // of which all tasks see the same: srun's own number of this one
        const auto task = environment.find("SLURM_PROCID");
        return task != environment.end() && task->second != "0";
    }
}

std::string task_address_of(const Allocation& allocation) {
    if (!has_several_tasks(allocation))
        return {};
    // Hydra gives its jobs no name, but all its processes of one node have one parent.
    const std::string job =
        allocation.job_id.empty() ? "of-process-" + std::to_string(::getppid()) : allocation.job_id;
    const std::string& node =
        allocation.node_names.at(static_cast<std::size_t>(allocation.node_rank));
    return task_address(::geteuid(), allocation.source + "/" + job,
                        node.empty() ? hostname() : node);
}

int serve_as_stand_in(const Allocation& allocation, const EnvironmentMap& environment) {
    const std::string address = task_address_of(allocation);
    const UniqueFd keeper_gone =
        start_keeper({.scratch = {}, .end_with_parent = true, .role = "stand-in"});
    try {
        return run_stand_in({.address = address,
                             .local_task = allocation.local_task,
                             .environment = lines_of(environment),
                             .cpus = read_affinity(),
                             .agent_timeout = kMeetingTimeout,
                             .keeper_gone = keeper_gone.get(),
                             .unread_input = copy_of_input(allocation)});
    } catch (const TimeoutError& error) {
        throw RendezvousError(exit_code::kNoHost, error.what(), error.hint());
    }
}

NodeTasks gather_tasks(const Allocation& own, const EnvironmentMap& environment,
                       const std::string& address, int cancel_fd) {
    NodeTasks tasks{nullptr, own, read_affinity()};
    if (!has_several_tasks(own))
        return tasks;
    try {
        tasks.stand_ins = std::make_unique<StandIns>(address, *own.tasks_on_node,
                                                     Deadline::after(kMeetingTimeout), cancel_fd);
    } catch (const TimeoutError& error) {
        throw RendezvousError(exit_code::kNoHost, error.what(), error.hint());
    }
    std::vector<TaskGrant> grants{{environment, tasks.cpus}};
    for (const LocalTask& task : tasks.stand_ins->tasks())
        grants.push_back({task.environment, task.cpus});
    tasks.allocation = merge_tasks(own, grants);
    tasks.cpus = cpus_of_all(grants);
    return tasks;
}

}  // namespace autolaunch::launcher
