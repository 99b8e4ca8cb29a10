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

// What Slurm says it gave. In a step SLURM_JOB_GPUS is only inherited from the batch script: it
// tells of that node, and of GPUs that the step may not have been given.
GpuGrant read_slurm_gpus(const EnvironmentMap& environment) {
    if (const auto value = lookup(environment, "SLURM_STEP_GPUS"))
        return {read_slurm_list("SLURM_STEP_GPUS", *value), "SLURM_STEP_GPUS"};
    const auto value = lookup(environment, "SLURM_JOB_GPUS");
    if (!value)
        return {};
    if (read_srun_step(environment))
        return {Names{}, "SLURM_STEP_GPUS"};
    return {read_slurm_list("SLURM_JOB_GPUS", *value), "SLURM_JOB_GPUS"};
}

GpuGrant masked_by(const char* variable, Names mask, const GpuGrant& of_job) {
    if (!of_job.names || of_job.names->empty())
        return {std::move(mask), variable, true};
    Names names = in_machine_numbers(mask, *of_job.names);
    std::string from = names == *of_job.names ? of_job.from : variable;
    return {std::move(names), std::move(from), true};
}

/// What HIP, the upper layer of ROCm, obeys. An empty variable counts as set: it hides all.
struct HipMask {
    const char* variable = nullptr;
    std::string value;
    std::string unread;  ///< a warning about the other variable
};

std::optional<HipMask> read_hip_mask(const EnvironmentMap& environment) {
    const auto cuda = lookup(environment, "CUDA_VISIBLE_DEVICES");
    if (const auto hip = lookup(environment, "HIP_VISIBLE_DEVICES")) {
        HipMask mask{"HIP_VISIBLE_DEVICES", *hip, {}};
        if (cuda && *cuda != *hip)
            mask.unread = fmt::format(
                "CUDA_VISIBLE_DEVICES={} is not read: HIP_VISIBLE_DEVICES={} is set, and goes "
                "before it for AMD's GPUs; unset one of them",
                *cuda, *hip);
        return mask;
    }
    if (cuda)
        return HipMask{"CUDA_VISIBLE_DEVICES", *cuda, {}};
    return std::nullopt;
}

bool is_named(const Names& names, const std::string& uuid) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return !is_index(name) && (name.starts_with(uuid) || uuid.starts_with(name));
    });
}

bool has_numbers(const Names& names) { return std::any_of(names.begin(), names.end(), is_index); }

// HIP counts the GPUs that ROCr leaves it. Its list ends at the first that is not there; one that
// is named again is passed over.
void narrow_by_hip(GpuGrant& grant, const std::string& of_rocr, const HipMask& mask) {
    const Names left = std::move(*grant.names);
    Names names;
    for (const std::string& name : read_mask(mask.variable, mask.value)) {
        long long position = 0;
        const bool number = parse_integer(name, position);
        const bool there = number ? position < static_cast<long long>(left.size())
                                  : is_named(left, name) || has_numbers(left);
        if (!there) {
            grant.warnings.push_back(fmt::format(
                "{}={} counts, from 0, the {} of {}: {} is not there, and HIP's list ends with it; "
                "unset {} (in Slurm: gres.conf's Flags=amd_gpu_env sets ROCR_VISIBLE_DEVICES "
                "alone)",
                mask.variable, mask.value,
                left.size() == 1 ? "one GPU" : fmt::format("{} GPUs", left.size()), of_rocr, name,
                mask.variable));
            break;
        }
        if (!number && !is_named(left, name))
            grant.warnings.push_back(
                fmt::format("{} names {}, and {} has numbers: whether it is one of them is not "
                            "looked at; write both the same way",
                            mask.variable, name, of_rocr));
        std::string found = number ? left[static_cast<std::size_t>(position)] : name;
        if (std::find(names.begin(), names.end(), found) == names.end())
            names.push_back(std::move(found));
    }
    if (names != left)
        grant.from = fmt::format("{} within ROCR_VISIBLE_DEVICES", mask.variable);
    grant.names = std::move(names);
}

// ROCr's list ends at a GPU that is named again.
Names until_named_again(Names names) {
    for (auto name = names.begin(); name != names.end(); ++name)
        if (std::find(names.begin(), name, *name) != name) {
            names.erase(name, names.end());
            break;
        }
    return names;
}

GpuGrant read_rocm_gpus(const EnvironmentMap& environment, GpuGrant of_job) {
    const auto rocr = lookup(environment, "ROCR_VISIBLE_DEVICES");
    const auto hip = read_hip_mask(environment);
    GpuGrant grant = std::move(of_job);
    if (rocr) {
        grant = masked_by("ROCR_VISIBLE_DEVICES",
                          until_named_again(read_mask("ROCR_VISIBLE_DEVICES", *rocr)), grant);
        if (hip)
            narrow_by_hip(grant, "ROCR_VISIBLE_DEVICES=" + *rocr, *hip);
    } else if (hip) {
        grant = masked_by(hip->variable, read_mask(hip->variable, hip->value), grant);
    }
    if (hip && !hip->unread.empty())
        grant.warnings.push_back(hip->unread);
    return grant;
}

}  // namespace

GpuGrant read_granted_gpus(const EnvironmentMap& environment, GpuRuntime runtime) {
    GpuGrant of_job = read_slurm_gpus(environment);
    if (runtime == GpuRuntime::rocm)
        return read_rocm_gpus(environment, std::move(of_job));
    const auto value = lookup(environment, "CUDA_VISIBLE_DEVICES");
    return value ? masked_by("CUDA_VISIBLE_DEVICES", read_mask("CUDA_VISIBLE_DEVICES", *value),
                             of_job)
                 : of_job;
}

void fill_granted_gpus(Allocation& allocation, const EnvironmentMap& environment) {
    allocation.gpus = read_granted_gpus(environment, GpuRuntime::cuda);
    allocation.rocm_gpus = read_granted_gpus(environment, GpuRuntime::rocm);
}

}  // namespace autolaunch::launcher
