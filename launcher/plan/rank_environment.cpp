#include "plan/rank_environment.hpp"

#include "session/environment.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace autolaunch::launcher {
namespace {

constexpr const char* kContract[] = {
    env::kRank,          env::kLocalRank,      env::kWorldSize,     env::kLocalWorldSize,
    env::kGroupRank,     env::kGroupWorldSize, env::kRoleRank,      env::kRoleName,
    env::kRoleWorldSize, env::kMasterAddr,     env::kMasterPort,    env::kRestartCount,
    env::kMaxRestarts,   env::kRunId,          env::kUseAgentStore, env::kErrorFile,
    env::kSocket,        env::kGeneration,     env::kRunDir,        env::kTrainerConfig,
    env::kStore,         env::kStoreToken,
};

class Choices {
public:
    void add(const char* name, std::string value, std::string reason) {
        list_.push_back({name, std::move(value), std::move(reason)});
    }
    void add(const char* name, long long value, std::string reason) {
        add(name, std::to_string(value), std::move(reason));
    }
    void add_unless_set(const EnvironmentMap& inherited, const char* name, std::string value,
                        std::string reason) {
        const auto found = inherited.find(name);
        if (found == inherited.end()) {
            add(name, std::move(value), std::move(reason));
        } else {
            add(name, found->second, "kept from your environment");
        }
    }
    /// The user's word is the last: it replaces ours.
    void override_with(const std::map<std::string, std::string>& section, const char* reason) {
        for (const auto& [name, value] : section) {
            const auto same = [&name = name](const VariableChoice& choice) {
                return choice.name == name;
            };
            list_.erase(std::remove_if(list_.begin(), list_.end(), same), list_.end());
            list_.push_back({name, value, reason});
        }
    }
    std::vector<VariableChoice> take() { return std::move(list_); }

private:
    std::vector<VariableChoice> list_;
};

void add_identity(Choices& choices, const LaunchPlan& plan, const RankPlan& rank) {
    const auto local_size = static_cast<long long>(plan.ranks.size());
    choices.add(env::kRank, rank.rank, "global rank");
    choices.add(env::kLocalRank, rank.local_rank, "rank on this node");
    choices.add(env::kWorldSize, plan.world_size, "ranks in all");
    choices.add(env::kLocalWorldSize, local_size, "ranks on this node");
    choices.add(env::kGroupRank, plan.node_rank, "this node among the nodes");
    choices.add(env::kGroupWorldSize, plan.node_count, "nodes");
    choices.add(env::kRoleRank, rank.rank, "one role: the global rank");
    choices.add(env::kRoleName, plan.spec.role, "role");
    choices.add(env::kRoleWorldSize, plan.world_size, "one role: all ranks");
    choices.add(env::kRunId, plan.run_id, "names this job");
    choices.add(env::kMaxRestarts, plan.spec.restart.max_restarts, "restart.max_restarts");
    choices.add(env::kUseAgentStore, "True",
                "the launcher serves the store at MASTER_ADDR:MASTER_PORT");
    choices.add(env::kRunDir, plan.run_dir, "run directory");
}

// Threads beyond the time that a cgroup allows only wait for each other.
VariableChoice threads_of(const LaunchPlan& plan, const RankPlan& rank) {
    const int cores = rank.binding.physical_cores;
    if (plan.cpu_quota) {
        const int share =
            std::max(1, static_cast<int>(*plan.cpu_quota / static_cast<double>(plan.ranks.size())));
        if (share < cores)
            return {{},
                    std::to_string(share),
                    fmt::format("its share of {:g} CPUs' worth of time", *plan.cpu_quota)};
    }
    return {{}, std::to_string(cores), "physical cores of the rank"};
}

}  // namespace

std::vector<VariableChoice> planned_environment(const LaunchPlan& plan, const RankPlan& rank,
                                                const EnvironmentMap& inherited) {
    Choices choices;
    add_identity(choices, plan, rank);
    const VariableChoice threads = threads_of(plan, rank);
    choices.add_unless_set(inherited, env::kOmpNumThreads, threads.value, threads.reason);
    if (plan.gpu_count > 0)
        choices.add_unless_set(inherited, env::kCudaDeviceOrder, "PCI_BUS_ID",
                               "GPU numbers are in PCI order, as planned");
    if (plan.gpu_mask_each && rank.gpu && !rank.gpu->uuid.empty())
        choices.add(env::kCudaVisibleDevices, rank.gpu->uuid,
                    "its GPU alone: a process can use one MIG device");
    if (!plan.gpu_mask.empty())
        choices.add(plan.gpu_mask_variable.c_str(), plan.gpu_mask,
                    "only these were granted, and nothing else hides the rest");
    for (const VariableChoice& choice : plan.nccl.set)
        choices.add(choice.name.c_str(), choice.value, choice.reason);
    choices.override_with(plan.spec.nccl.env, "nccl.env");
    choices.override_with(plan.spec.trainer.env, "trainer.env");
    return choices.take();
}

std::vector<std::string> overridden_contract(
    const std::map<std::string, std::string>& trainer_env) {
    std::vector<std::string> warnings;
    for (const char* name : kContract) {
        if (trainer_env.contains(name))
            warnings.push_back(fmt::format(
                "trainer.env sets {}, which the launcher sets for every rank: ranks may not "
                "find each other",
                name));
    }
    return warnings;
}

std::vector<std::string> rank_environment(const LaunchPlan& plan, const RankPlan& rank,
                                          const GenerationFacts& facts,
                                          const EnvironmentMap& inherited) {
    EnvironmentMap environment = inherited;
    for (const char* name : kContract)
        environment.erase(name);  // left over from an outer launch
    for (const char* name : {env::kJobKey, env::kMungeSocket})
        environment.erase(name);
    for (const VariableChoice& choice : rank.environment)
        environment[choice.name] = choice.value;

    environment[env::kMasterAddr] = facts.master_addr;
    environment[env::kMasterPort] = std::to_string(facts.master_port);
    environment[env::kRestartCount] = std::to_string(facts.generation);
    environment[env::kGeneration] = std::to_string(facts.generation);
    environment[env::kErrorFile] = fmt::format("{}/generation-{}/rank-{}/error.json", facts.run_dir,
                                               facts.generation, rank.rank);
    if (!facts.run_dir.empty())
        environment[env::kRunDir] = facts.run_dir;
    if (!facts.store_address.empty())
        environment[env::kStore] = facts.store_address;
    if (!facts.store_token.empty())
        environment[env::kStoreToken] = facts.store_token;
    if (!facts.socket_path.empty())
        environment[env::kSocket] = facts.socket_path;
    if (!facts.trainer_config_path.empty())
        environment[env::kTrainerConfig] = facts.trainer_config_path;
    for (const auto& [name, value] : plan.spec.trainer.env)
        environment[name] = value;

    std::vector<std::string> lines;
    lines.reserve(environment.size());
    for (const auto& [name, value] : environment)
        lines.push_back(name + "=" + value);
    return lines;
}

}  // namespace autolaunch::launcher
