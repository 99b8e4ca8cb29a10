#pragma once
#include "allocation/allocation.hpp"
#include "spec/job_spec.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What a job wants or was granted, as far as it is known.
struct JobClaim {
    std::optional<std::int64_t> gpus;    ///< of all nodes
    std::string gpus_words;              ///< "4 nodes x 8"
    std::optional<std::int64_t> memory;  ///< bytes of the nodes' own memory, of all nodes
    std::optional<std::chrono::seconds> time;
    bool unlimited_time = false;
    std::vector<std::string> actions;  ///< train, checkpoint, …: permissions that it needs
};

/// What the spec asks for: slurm_config and resource_management. `action`: what the job says it
/// does; empty: train. Pure.
JobClaim claim_of_spec(const JobSpec& spec, const std::string& action);

/// The same of a job that has its nodes: what was granted counts in place of what was asked for.
/// Memory is Slurm's, of the environment. Pure.
JobClaim claim_of_grant(JobClaim asked, int nodes, int gpus_per_node,
                        const EnvironmentMap& environment);

/// "8:00:00", "2-00:00:00", "UNLIMITED" of squeue or of a spec. Pure.
void set_time(JobClaim& claim, const std::string& slurm_time);

}  // namespace autolaunch::launcher
