#include "plan/usable_gpus.hpp"

#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace autolaunch::launcher {
namespace {

// One job runs on one kind of GPU. A machine with both has NVIDIA cards and an AMD CPU's built-in graphics.
std::vector<int> of_one_vendor(const NodeTopology& topology) {
    std::vector<int> nvidia, other;
    for (std::size_t i = 0; i < topology.gpus.size(); ++i)
        (topology.gpus[i].vendor == "nvidia" ? nvidia : other).push_back(static_cast<int>(i));
    return nvidia.empty() ? other : nvidia;
}

// A number counts the vendor's GPUs in PCI order; a UUID may be shortened, as CUDA accepts.
std::optional<int> find_gpu(const NodeTopology& topology, const std::vector<int>& candidates, const std::string& name) {
    long long index = 0;
    if (parse_integer(name, index)) {
        if (index < 0 || index >= static_cast<long long>(candidates.size())) return std::nullopt;
        return candidates[static_cast<std::size_t>(index)];
    }
    for (const int position : candidates)
        if (topology.gpus[static_cast<std::size_t>(position)].uuid.starts_with(name)) return position;
    return std::nullopt;
}

std::string count_text(std::size_t count) { return fmt::format("{} GPU{}", count, count == 1 ? "" : "s"); }

// A grant that came as a visibility variable is obeyed by the vendor's runtime; one that came only from the scheduler
// is not. UUIDs mean the same GPUs whether or not a cgroup renumbers them.
void mask_others(UsableGpus& usable, const NodeTopology& topology, const Allocation& allocation, std::size_t all) {
    const bool from_scheduler = allocation.granted_gpus_from.starts_with("SLURM_") && !allocation.gpus_are_masked;
    if (!from_scheduler || usable.positions.empty() || usable.positions.size() == all) return;
    std::vector<std::string> uuids;
    for (const int position : usable.positions) {
        const Gpu& gpu = topology.gpus[static_cast<std::size_t>(position)];
        if (gpu.vendor == "nvidia" && !gpu.uuid.empty()) uuids.push_back(gpu.uuid);
    }
    if (uuids.size() == usable.positions.size()) {
        usable.mask = join(uuids, ",");
    } else {
        usable.warnings.push_back(fmt::format("{} grants {} of {}, but nothing hides the others from the ranks",
                                              allocation.granted_gpus_from, usable.positions.size(), count_text(all)));
    }
}

}  // namespace

UsableGpus choose_usable_gpus(const NodeTopology& topology, const Allocation& allocation,
                              const ResourceSpec& resources) {
    UsableGpus usable;
    const std::vector<int> candidates = of_one_vendor(topology);
    if (!allocation.granted_gpus) {
        usable.positions = candidates;
    } else {
        for (const std::string& name : *allocation.granted_gpus) {
            if (const auto position = find_gpu(topology, candidates, name)) {
                usable.positions.push_back(*position);
            } else {
                usable.warnings.push_back(fmt::format("{} names GPU {}, but this machine shows {}: left out",
                                                      allocation.granted_gpus_from, name,
                                                      count_text(candidates.size())));
            }
        }
    }
    mask_others(usable, topology, allocation, candidates.size());
    if (!resources.gpus_per_node) return usable;
    const int wanted = *resources.gpus_per_node;
    if (wanted > static_cast<int>(usable.positions.size())) {
        const std::string limit = allocation.granted_gpus && usable.positions.size() < candidates.size()
                                      ? fmt::format(" may be used here ({})", allocation.granted_gpus_from)
                                      : std::string(usable.positions.size() == 1 ? " is here" : " are here");
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{} a node are asked for, but {}{}", count_text(static_cast<std::size_t>(wanted)),
                                count_text(usable.positions.size()), limit),
                    "lower resources.gpus_per_node, or leave it out to take what is there");
    }
    usable.positions.resize(static_cast<std::size_t>(std::max(wanted, 0)));
    return usable;
}

}  // namespace autolaunch::launcher
