#pragma once
#include "spec/job_spec.hpp"
#include "topology/node_topology.hpp"

#include <autolaunch/fsdp/memory_plan.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What a rank of this node may use.
struct MemoryLimit {
    std::uint64_t bytes = 0;  ///< 0: unknown
    std::string of;           ///< "GPU 0, NVIDIA H100", "8 ranks in the cgroup's 64.0 GiB"
};

/// Memory of one rank, predicted from the spec's model_size (docs/memory.md).
struct MemoryForecast {
    fsdp::MemoryPlanOptions options;
    fsdp::ModelSize model;
    fsdp::MemoryPlan plan;
    std::vector<std::string> assumptions;  ///< what the spec does not say; one sentence each
    MemoryLimit limit;
    std::string
        warning;  ///< where it does not fit, with what would; empty: it fits, or nobody knows
};

/// Where ranks are: what the forecast needs of a plan.
struct RankPlaces {
    int world_size = 1;
    int local_ranks = 1;
    std::vector<const Gpu*> gpus;  ///< of each local rank that has one
};

/// Pure. Nothing where the spec gives no model size. Throws Error{invalid_argument} for a size that
/// no model can have.
std::optional<MemoryForecast> forecast_memory(const JobSpec& spec, const RankPlaces& places,
                                              const NodeTopology& topology);

/// "13.4 GiB", "812.0 MiB".
std::string format_binary(std::uint64_t bytes);

}  // namespace autolaunch::launcher
