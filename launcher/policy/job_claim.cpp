#include "policy/job_claim.hpp"

#include "allocation/slurm_time.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <cctype>

namespace autolaunch::launcher {

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

std::optional<std::int64_t> number_in(const EnvironmentMap& environment, const char* name) {
    const auto found = environment.find(name);
    long long number = 0;
    if (found == environment.end() || !parse_integer(found->second, number) || number <= 0)
        return std::nullopt;
    return number;
}

// Slurm's --mem: MiB where no unit is given. 0 is all that a node has: not known here.
std::optional<std::int64_t> slurm_memory(const std::string& text) {
    std::string digits = text;
    std::int64_t unit = kMiB;
    if (!digits.empty() && std::isdigit(static_cast<unsigned char>(digits.back())) == 0) {
        const std::size_t place = std::string("KMGT").find(
            static_cast<char>(std::toupper(static_cast<unsigned char>(digits.back()))));
        if (place == std::string::npos)
            return std::nullopt;
        unit = std::int64_t{1} << (10 * (place + 1));
        digits.pop_back();
    }
    long long number = 0;
    constexpr long long kMost = 1'000'000'000;
    if (!parse_integer(digits, number) || number <= 0 || number > kMost)
        return std::nullopt;
    return number * unit;
}

// "gpu:a100:4,nvme:1": 4. "gpu" alone is one.
std::optional<std::int64_t> gpus_of_gres(const std::string& gres) {
    std::optional<std::int64_t> gpus;
    for (const std::string& one : split(gres, ',')) {
        std::string words(trim(one));
        if (words.starts_with("gres:"))
            words.erase(0, 5);
        const auto parts = split(words, ':');
        if (parts.empty() || parts[0] != "gpu")
            continue;
        long long number = 1;
        parse_integer(parts.back().substr(0, parts.back().find('(')), number);
        gpus = gpus.value_or(0) + number;
    }
    return gpus;
}

void set_gpus(JobClaim& claim, std::int64_t nodes, std::int64_t each) {
    claim.gpus = nodes * each;
    claim.gpus_words =
        std::to_string(nodes) + (nodes == 1 ? " node x " : " nodes x ") + std::to_string(each);
}

}  // namespace

void set_time(JobClaim& claim, const std::string& slurm_time) {
    claim.time = parse_slurm_time(slurm_time);
    claim.unlimited_time = !claim.time && (slurm_time == "UNLIMITED" || slurm_time == "INFINITE");
}

JobClaim claim_of_spec(const JobSpec& spec, const std::string& action) {
    JobClaim claim;
    const std::int64_t nodes = std::max(
        spec.slurm.nodes.value_or(1),
        std::max(spec.resources.nodes, spec.resources.most_nodes) + spec.resources.spare_nodes);
    std::optional<std::int64_t> each = gpus_of_gres(spec.slurm.gres);
    for (const std::optional<int>& said : {spec.slurm.gpus_per_node, spec.resources.gpus_per_node})
        if (said)
            each = std::max(each.value_or(0), std::int64_t{*said});
    if (each)
        set_gpus(claim, nodes, *each);
    if (const auto memory = slurm_memory(spec.slurm.mem))
        claim.memory = *memory * nodes;
    set_time(claim, spec.slurm.time_limit);
    claim.actions = {action.empty() ? "train" : action};
    if (spec.checkpoint.enabled && claim.actions[0] != "checkpoint")
        claim.actions.emplace_back("checkpoint");
    return claim;
}

JobClaim claim_of_grant(JobClaim asked, int nodes, int gpus_per_node,
                        const EnvironmentMap& environment) {
    set_gpus(asked, nodes, gpus_per_node);
    asked.memory.reset();
    if (const auto of_node = number_in(environment, "SLURM_MEM_PER_NODE"))
        asked.memory = *of_node * kMiB * nodes;
    else if (const auto of_gpu = number_in(environment, "SLURM_MEM_PER_GPU"))
        asked.memory = *of_gpu * kMiB * *asked.gpus;
    const auto of_cpu = number_in(environment, "SLURM_MEM_PER_CPU"),
               cpus = number_in(environment, "SLURM_CPUS_ON_NODE");
    if (!asked.memory && of_cpu && cpus)
        asked.memory = *of_cpu * *cpus * kMiB * nodes;
    return asked;
}

}  // namespace autolaunch::launcher
