#include "rendezvous/environment_comparison.hpp"

#include "allocation/hostlist.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kVariablesShown = 8;

// A '*' at the end stands for anything.
constexpr std::array<std::string_view, 64> kDifferByNature = {
    // Slurm: which task and node this is, its CPUs and GPUs
    "SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID", "SLURMD_NODENAME", "SLURM_TASK_PID",
    "SLURM_GTIDS", "SLURM_TOPOLOGY_ADDR*", "SLURM_CPUS_ON_NODE", "SLURM_GPUS_ON_NODE",
    "SLURM_CPU_BIND*", "SLURM_MEM_BIND*", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_DISTRIBUTION",
    "SLURMD_*",
    // other launchers: the same
    "OMPI_*", "PMIX_*", "PMI_*", "PMI2_*", "PRTE_*", "MPI_LOCAL*", "MPIR_*", "HYD*", "MV2_*",
    "PALS_*", "ALPS_*", "PBS_*", "LSB_*", "LSF_*", "LS_*", "JSM_*", "RANK", "LOCAL_RANK",
    "NODE_RANK", "PET_NODE_RANK", "GROUP_RANK", "JOB_COMPLETION_INDEX", "VC_TASK_INDEX",
    "VK_TASK_INDEX", "POD_*", "NODE_NAME", "HOST_IP", "KUBERNETES_*", "AUTOLAUNCH_JOB_KEY",
    // GPUs
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK", "GPU_DEVICE_ORDINAL",
    // the machine, the session and the shell
    "HOSTNAME", "HOST", "TMPDIR", "SSH_*", "XDG_*", "DBUS_SESSION_BUS_ADDRESS", "INVOCATION_ID",
    "JOURNAL_STREAM", "SHLVL", "OLDPWD", "_", "TERM", "COLUMNS", "LINES"};

std::string list_variables(const std::vector<std::string>& names) {
    const std::size_t shown = std::min(names.size(), kVariablesShown);
    std::string text = join(std::span(names).first(shown), ", ");
    if (names.size() > shown)
        text += " and " + std::to_string(names.size() - shown) + " more";
    return text;
}

}  // namespace

bool differs_by_nature(std::string_view variable) {
    return std::any_of(kDifferByNature.begin(), kDifferByNature.end(),
                       [&](std::string_view pattern) {
                           if (pattern.ends_with('*'))
                               return variable.starts_with(pattern.substr(0, pattern.size() - 1));
                           return variable == pattern;
                       });
}

control::EnvironmentTable describe_environment(const EnvironmentMap& environment) {
    control::EnvironmentTable table;
    for (const auto& [name, value] : environment)  // sorted
        if (!differs_by_nature(name))
            table.variables.emplace_back(name, hash64(value.data(), value.size()));
    return table;
}

std::uint64_t digest_of(const control::EnvironmentTable& table) {
    std::string bytes;
    for (const auto& [name, digest] : table.variables)
        bytes += name + '=' + hex64(digest) + '\n';
    return hash64(bytes.data(), bytes.size());
}

std::vector<std::string> differing_variables(const control::EnvironmentTable& a,
                                             const control::EnvironmentTable& b) {
    std::vector<std::pair<std::string, std::uint64_t>> different;
    std::set_symmetric_difference(a.variables.begin(), a.variables.end(), b.variables.begin(),
                                  b.variables.end(), std::back_inserter(different));
    std::vector<std::string> names;
    for (auto& [name, digest] : different)
        names.push_back(std::move(name));
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

bool EnvironmentComparison::must_ask(const std::string& node_name, std::uint64_t digest) {
    if (digest == own_digest_)
        return false;
    const auto found = others_.find(digest);
    if (found != others_.end()) {
        found->second.nodes.push_back(node_name);
        return false;
    }
    if (others_.size() == kMaxAsked)
        return false;
    others_[digest].nodes.push_back(node_name);
    ++outstanding_;
    return true;
}

void EnvironmentComparison::answer(std::uint64_t digest, const control::EnvironmentTable& table) {
    const auto found = others_.find(digest);
    if (found == others_.end() || std::exchange(found->second.answered, true))
        return;
    found->second.variables = differing_variables(own_, table);
    --outstanding_;
}

std::vector<std::string> EnvironmentComparison::warnings(const std::string& head_name) const {
    std::map<std::vector<std::string>, std::vector<std::string>> nodes_by_variables;
    for (const auto& [digest, other] : others_) {
        if (other.variables.empty())
            continue;
        auto& nodes = nodes_by_variables[other.variables];
        nodes.insert(nodes.end(), other.nodes.begin(), other.nodes.end());
    }
    std::vector<std::string> lines;
    for (auto& [variables, nodes] : nodes_by_variables) {
        std::sort(nodes.begin(), nodes.end());
        lines.push_back("the environment of " + compress_hostlist(nodes) + " is not that of " +
                        head_name + ": " + list_variables(variables));
    }
    return lines;
}

}  // namespace autolaunch::launcher
