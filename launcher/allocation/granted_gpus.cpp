#include "allocation/adapters.hpp"
#include "allocation/hostlist.hpp"
#include "allocation/slurm_nodes.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace autolaunch::launcher {
namespace {

using Names = std::vector<std::string>;

constexpr std::size_t kMostGpus = 4096;  // on one machine

bool is_index(std::string_view name) {
    long long number = 0;
    return parse_integer(name, number);
}

// CUDA's own reading of the mask: the list ends at the first device that does not exist, so "-1"
// hides all after it.
Names read_mask(std::string_view variable, const std::string& value) {
    if (trim(value).empty() || value == "NoDevFiles" || value == "none" || value == "void")
        return {};
    Names names;
    for (const std::string& part : split(value, ',')) {
        const std::string name(trim(part));
        if (name.starts_with('-'))
            break;
        const bool uuid = name.starts_with("GPU-") || name.starts_with("MIG-");
        if (!uuid && !is_index(name)) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("{}={}: '{}' is neither a GPU number nor a UUID", variable,
                                    value, name),
                        fmt::format("unset {} or give numbers, e.g. {}=0,1", variable, variable));
        }
        if (names.size() >= kMostGpus) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("{} names more than {} GPUs", variable, kMostGpus));
        }
        names.push_back(name);
    }
    return names;
}

// Slurm lists "0,1,2" or, from some versions and plugins, "0-3".
Names read_slurm_list(std::string_view variable, const std::string& value) {
    if (trim(value).empty())
        return {};
    try {
        return expand_hostlist("[" + value + "]");
    } catch (const Error& error) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}={}: {}", variable, value, error.what()));
    }
}

// The mask counts either the machine's GPUs or, where Slurm confines devices with cgroups, those of
// the job from 0. If every index is one of the job's, it is taken as the machine's number.
Names in_machine_numbers(const Names& mask, const Names& of_job) {
    const auto is_of_job = [&](const std::string& name) {
        return std::find(of_job.begin(), of_job.end(), name) != of_job.end();
    };
    if (std::all_of(mask.begin(), mask.end(), is_of_job))
        return mask;
    Names names;
    for (const std::string& name : mask) {
        long long position = 0;
        if (!parse_integer(name, position) || position >= static_cast<long long>(of_job.size()))
            return mask;
        names.push_back(of_job[static_cast<std::size_t>(position)]);
    }
    return names;
}

}  // namespace

namespace {

// What Slurm says it gave. In a step SLURM_JOB_GPUS is only inherited from the batch script: it
// tells of that node, and of GPUs that the step may not have been given.
std::optional<GrantedGpus> read_slurm_gpus(const EnvironmentMap& environment) {
    if (const auto value = lookup(environment, "SLURM_STEP_GPUS"))
        return GrantedGpus{read_slurm_list("SLURM_STEP_GPUS", *value), "SLURM_STEP_GPUS", false};
    const auto value = lookup(environment, "SLURM_JOB_GPUS");
    if (!value)
        return std::nullopt;
    if (read_srun_step(environment))
        return GrantedGpus{{}, "SLURM_STEP_GPUS", false};
    return GrantedGpus{read_slurm_list("SLURM_JOB_GPUS", *value), "SLURM_JOB_GPUS", false};
}

// HIP counts the GPUs that ROCr leaves it.
Names narrow_by_hip(const EnvironmentMap& environment, Names of_rocr) {
    const auto value = lookup(environment, "HIP_VISIBLE_DEVICES");
    if (!value)
        return of_rocr;
    Names names;
    for (const std::string& name : read_mask("HIP_VISIBLE_DEVICES", *value)) {
        long long position = 0;
        if (!parse_integer(name, position)) {
            names.push_back(name);
        } else if (position < static_cast<long long>(of_rocr.size())) {
            names.push_back(of_rocr[static_cast<std::size_t>(position)]);
        }
    }
    return names;
}

}  // namespace

std::optional<GrantedGpus> read_granted_gpus(const EnvironmentMap& environment) {
    const auto of_job = read_slurm_gpus(environment);
    for (const char* variable :
         {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}) {
        const auto value = lookup(environment, variable);
        if (!value)
            continue;
        Names mask = read_mask(variable, *value);
        if (variable == std::string_view("ROCR_VISIBLE_DEVICES"))
            mask = narrow_by_hip(environment, std::move(mask));
        if (!of_job || of_job->names.empty())
            return GrantedGpus{mask, variable, true};
        const Names names = in_machine_numbers(mask, of_job->names);
        return GrantedGpus{names, names == of_job->names ? of_job->from : variable, true};
    }
    return of_job;
}

void fill_granted_gpus(Allocation& allocation, const EnvironmentMap& environment) {
    auto gpus = read_granted_gpus(environment);
    if (!gpus)
        return;
    allocation.granted_gpus = std::move(gpus->names);
    allocation.granted_gpus_from = std::move(gpus->from);
    allocation.gpus_are_masked = gpus->masked;
}

}  // namespace autolaunch::launcher
