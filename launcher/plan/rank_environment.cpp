#include "plan/rank_environment.hpp"

#include "base/environment.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "base/workspace.hpp"
#include "plan/oversubscription.hpp"
#include "plan/plan_checkpoint.hpp"
#include "plan/rank_secrets.hpp"
#include "plan/task_variables.hpp"
#include "session/environment.hpp"

#include <fmt/format.h>

#include <string.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

namespace autolaunch::launcher {
namespace {

constexpr const char* kContract[] = {
    env::kRank,          env::kLocalRank,      env::kWorldSize,       env::kLocalWorldSize,
    env::kGroupRank,     env::kGroupWorldSize, env::kRoleRank,        env::kRoleName,
    env::kRoleWorldSize, env::kMasterAddr,     env::kMasterPort,      env::kRestartCount,
    env::kMaxRestarts,   env::kRunId,          env::kUseAgentStore,   env::kErrorFile,
    env::kSocket,        env::kGeneration,     env::kRunDir,          env::kWorkspace,
    env::kSpecDigest,    env::kTrainerConfig,  env::kStore,           env::kStoreToken,
    env::kWithin,        env::kTrueLocalRank,  env::kSignalsToHandle, env::kStdout,
    env::kDebugRank,     env::kSpare,
};

class Choices {
public:
    void add(VariableChoice choice) { list_.push_back(std::move(choice)); }
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

std::string signal_names(const std::vector<int>& numbers) {
    if (numbers.empty())
        return "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
    std::vector<std::string> names;
    for (const int number : numbers)
        names.push_back(std::string("SIG") + ::sigabbrev_np(number));
    return join(names, ",");
}

void add_identity(Choices& choices, const LaunchPlan& plan, const RankPlan& rank) {
    const auto local_size = static_cast<long long>(plan.ranks.size());
    choices.add(env::kRank, rank.rank, "global rank");
    if (plan.spec.resources.virtual_local_rank) {
        choices.add(env::kLocalRank, 0, "--virtual-local-rank");
        choices.add(env::kTrueLocalRank, rank.local_rank, "rank on this node");
    } else {
        choices.add(env::kLocalRank, rank.local_rank, "rank on this node");
    }
    choices.add(env::kWorldSize, plan.world_size, "ranks in all");
    choices.add(env::kLocalWorldSize, local_size, "ranks on this node");
    choices.add(env::kGroupRank, plan.group_rank, "this node among the nodes");
    choices.add(env::kNodeRank, plan.group_rank, "as GROUP_RANK, for programs that ask so");
    choices.add(env::kGroupWorldSize, plan.node_count, "nodes");
    const bool one_role = plan.spec.programs.empty();
    choices.add(env::kRoleRank, rank.role_rank,
                one_role ? "one role: the global rank" : "among the ranks of its role");
    choices.add(env::kRoleName, rank.role, "role");
    choices.add(env::kRoleWorldSize, rank.role_size,
                one_role ? "one role: all ranks" : "ranks of its role");
    choices.add(env::kRunId, plan.run_id, "names this job");
    choices.add(env::kMaxRestarts, plan.spec.restart.max_restarts, "restart.max_restarts");
    choices.add(env::kUseAgentStore, "True",
                "the launcher serves the store at MASTER_ADDR:MASTER_PORT");
    choices.add(env::kSignalsToHandle, signal_names(plan.spec.stop_signals),
                "that stop the job and reach its ranks");
    choices.add(env::kRunDir, plan.run_dir, "run directory");
    if (plan.spec.source_digest != 0)
        choices.add(env::kSpecDigest, hex64(plan.spec.source_digest), "for checkpoints' lineage");
    if (!plan.spec.checkpoint.signing_key.empty())
        choices.add(env::kSigningKey, plan.spec.checkpoint.signing_key, "checkpoint.signing_key");
    if (const Workspace made = workspace_of(plan.spec.workspace); made.exact || made.open_parents)
        choices.add(env::kWorkspace, to_text(made), "how checkpoints are made: workspace");
}

// The others wait for it in a collective as long as somebody looks at it: the library's deadline
// and PyTorch's two watchdogs of NCCL would end them.
void add_patience(Choices& choices, int rank, const EnvironmentMap& inherited) {
    const std::string reason = fmt::format("rank {} is debugged, and the others wait", rank);
    choices.add(env::kDebugRank, rank, reason);
    for (const char* name : {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING"})
        choices.add_unless_set(inherited, name, "0", reason);
}

// The GPU that was planned, else as torchrun counts them.
std::string own_device(const RankPlan& rank, const EnvironmentMap& inherited) {
    if (rank.gpu && !rank.gpu->uuid.empty())
        return rank.gpu->uuid;
    const auto visible = split(value_of(inherited, env::kCudaVisibleDevices), ',');
    const auto place = static_cast<std::size_t>(rank.local_rank);
    return place < visible.size() && !visible[place].empty() ? visible[place]
                                                             : std::to_string(rank.local_rank);
}

// ROCm reads CUDA_DEVICE_ORDER nowhere: its numbers are its driver's, which the plan follows.
bool has_nvidia_gpus(const LaunchPlan& plan) {
    return std::any_of(plan.ranks.begin(), plan.ranks.end(), [](const RankPlan& rank) {
        return rank.gpu && rank.gpu->vendor == "nvidia";
    });
}

// Threads beyond the time that a cgroup allows only wait for each other.
std::optional<VariableChoice> threads_of(const LaunchPlan& plan, const RankPlan& rank) {
    const int cores = rank.binding.physical_cores;
    if (cores == 0)
        return std::nullopt;  // not told
    if (plan.cpu_quota) {
        const int share =
            std::max(1, static_cast<int>(*plan.cpu_quota / static_cast<double>(plan.ranks.size())));
        if (share < cores)
            return VariableChoice{
                {},
                std::to_string(share),
                fmt::format("its share of {:g} CPUs' worth of time", *plan.cpu_quota)};
    }
    return VariableChoice{{}, std::to_string(cores), "physical cores of the rank"};
}

// Open MPI and Intel MPI spin while they wait; where another rank needs the CPU to send what is
// waited for, a message takes as long as the kernel's turns.
void add_yielding(Choices& choices, const LaunchPlan& plan, const EnvironmentMap& inherited) {
    const std::string why = describe_oversubscription(plan);
    if (why.empty() || plan.spec.trainer.mpi == "none")
        return;
    for (const char* name : {"OMPI_MCA_mpi_yield_when_idle", "I_MPI_WAIT_MODE"})
        choices.add_unless_set(inherited, name, "1",
                               why + ": an MPI rank that waits lets others compute");
}

// The library's Checkpointer reads them (docs/encryption.md). Public keys, and paths: no secret.
void add_checkpoint(Choices& choices, const LaunchPlan& plan) {
    const CheckpointSpec& checkpoint = plan.spec.checkpoint;
    const std::string settings = to_text(checkpoint_settings(checkpoint, plan.workdir));
    if (!settings.empty())
        choices.add(env::kCheckpoint, settings, "checkpoint: for the library's Checkpointer");
    if (!checkpoint.recipients.empty())
        choices.add(env::kCheckpointRecipients, join(checkpoint.recipients, ","),
                    "checkpoint.recipients: checkpoints are encrypted for these");
    if (!checkpoint.identity_file.empty())
        choices.add(env::kCheckpointIdentityFile, checkpoint.identity_file,
                    "checkpoint.identity_file: opens them");
    if (!checkpoint.authentication_key_file.empty())
        choices.add(env::kCheckpointMacFile, checkpoint.authentication_key_file,
                    "checkpoint.authentication_key_file: proves who wrote them");
}

// Left over from an outer launch, secret, or of the task that the agent is.
bool stays_with_agent(std::string_view name, const LaunchPlan& plan,
                      const EnvironmentMap& inherited) {
    const auto is_name = [name](const char* other) { return name == other; };
    return std::any_of(std::begin(kContract), std::end(kContract), is_name) ||
           name == env::kJobKey || name == env::kMungeSocket ||
           is_given_as_secret(plan.spec, name) || is_of_agent_alone(name, plan, inherited);
}

}  // namespace

std::vector<VariableChoice> planned_environment(const LaunchPlan& plan, const RankPlan& rank,
                                                const EnvironmentMap& inherited) {
    Choices choices;
    add_identity(choices, plan, rank);
    for (VariableChoice& variable : task_variables(plan, rank, inherited))
        choices.add(std::move(variable));
    if (const auto threads = threads_of(plan, rank))
        choices.add_unless_set(inherited, env::kOmpNumThreads, threads->value, threads->reason);
    if (has_nvidia_gpus(plan))
        choices.add_unless_set(inherited, env::kCudaDeviceOrder, "PCI_BUS_ID",
                               "GPU numbers are in PCI order, as planned");
    choices.add_unless_set(inherited, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1",
                           "a failed collective ends its rank, as under torchrun");
    if (plan.spec.resources.virtual_local_rank)
        choices.add(env::kCudaVisibleDevices, own_device(rank, inherited), "its GPU alone");
    else if (plan.gpu_mask_each && rank.gpu && !rank.gpu->uuid.empty())
        choices.add(env::kCudaVisibleDevices, rank.gpu->uuid,
                    "its GPU alone: a process can use one MIG device");
    if (!plan.gpu_mask.empty() && !plan.spec.resources.virtual_local_rank)
        choices.add(plan.gpu_mask_variable.c_str(), plan.gpu_mask,
                    "only these were granted, and nothing else hides the rest");
    add_yielding(choices, plan, inherited);
    for (const VariableChoice& choice : plan.nccl.set)
        choices.add(choice.name.c_str(), choice.value, choice.reason);
    if (plan.spec.debug_rank)
        add_patience(choices, *plan.spec.debug_rank, inherited);
    add_checkpoint(choices, plan);
    choices.override_with(plan.spec.nccl.env, "nccl.env");
    choices.override_with(plan.spec.trainer.env, "trainer.env");
    if (plan.spec.checkpoint.must_be_encrypted)
        choices.override_with({{env::kCheckpointEncryption, env::kEncryptionRequired}},
                              "data_security.encryption_at_rest");
    return choices.take();
}

bool is_of_the_contract(std::string_view name) {
    return std::any_of(std::begin(kContract), std::end(kContract),
                       [name](const char* other) { return name == other; });
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
    std::map<std::string_view, std::string> ours;
    for (const VariableChoice& choice : rank.environment)
        ours[choice.name] = choice.value;
    ours[env::kMasterAddr] = facts.master_addr;
    ours[env::kMasterPort] = std::to_string(facts.master_port);
    ours[env::kRestartCount] = std::to_string(facts.generation);
    ours[env::kGeneration] = std::to_string(facts.generation);
    ours[env::kErrorFile] = fmt::format("{}/generation-{}/rank-{}/error.json", facts.run_dir,
                                        facts.generation, rank.rank);
    if (!facts.run_dir.empty())
        ours[env::kRunDir] = facts.run_dir;
    if (!facts.store_address.empty())
        ours[env::kStore] = facts.store_address;
    if (!facts.store_token.empty())
        ours[env::kStoreToken] = facts.store_token;
    if (!facts.socket_path.empty())
        ours[env::kSocket] = facts.socket_path;
    if (!facts.trainer_config_path.empty())
        ours[env::kTrainerConfig] = facts.trainer_config_path;
    // The user's word is the last, also on what is known only now.
    for (const char* name : kContract)
        if (const auto users = plan.spec.trainer.env.find(name);
            users != plan.spec.trainer.env.end())
            ours[name] = users->second;

    // Both are sorted, and so is what comes of them.
    std::vector<std::string> lines;
    lines.reserve(inherited.size() + ours.size());
    const auto add = [&lines](std::string_view name, std::string_view value) {
        std::string& line = lines.emplace_back();
        line.reserve(name.size() + 1 + value.size());
        line.append(name).append("=").append(value);
    };
    auto own = ours.begin();
    for (const auto& [name, value] : inherited) {
        for (; own != ours.end() && own->first < name; ++own)
            add(own->first, own->second);
        const bool replaced = own != ours.end() && own->first == name;
        if (!replaced && !stays_with_agent(name, plan, inherited))
            add(name, value);
    }
    for (; own != ours.end(); ++own)
        add(own->first, own->second);
    return lines;
}

}  // namespace autolaunch::launcher
