#include "plan/usable_gpus.hpp"

#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace autolaunch::launcher {
namespace {

const Gpu& gpu_at(const NodeTopology& topology, int position) {
    return topology.gpus[static_cast<std::size_t>(position)];
}

std::string count_text(std::size_t count) {
    return fmt::format("{} GPU{}", count, count == 1 ? "" : "s");
}

// One job runs on one kind of GPU. A machine with both has NVIDIA cards and an AMD CPU's built-in
// graphics. ROCm numbers GPUs in its driver's order, and there is no variable that would make it
// PCI order.
std::vector<int> of_one_vendor(const NodeTopology& topology, std::vector<std::string>& notes) {
    std::vector<int> nvidia, other;
    for (std::size_t i = 0; i < topology.gpus.size(); ++i)
        (topology.gpus[i].vendor == "nvidia" ? nvidia : other).push_back(static_cast<int>(i));
    if (!nvidia.empty() && !other.empty())
        notes.push_back(fmt::format(
            "{} from AMD {} left out: a job runs on GPUs of one vendor, and there are NVIDIA's",
            count_text(other.size()), other.size() == 1 ? "is" : "are"));
    if (!nvidia.empty())
        return nvidia;
    std::stable_sort(other.begin(), other.end(), [&](int a, int b) {
        const auto &first = gpu_at(topology, a).runtime_index,
                   &second = gpu_at(topology, b).runtime_index;
        return first && second && *first < *second;
    });
    return other;
}

bool is_mig(const Gpu& gpu) { return gpu.vendor == "nvidia" && !gpu.partition_of.empty(); }

// Whole GPUs, each with its parts: CUDA's numbers count these, Slurm's count every part, and so do
// ROCm's.
std::vector<std::vector<int>> group(const NodeTopology& topology,
                                    const std::vector<int>& candidates, bool parts_count) {
    std::vector<std::vector<int>> groups;
    std::string last;
    for (const int position : candidates) {
        const Gpu& gpu = gpu_at(topology, position);
        if (parts_count || !is_mig(gpu) || gpu.partition_of != last)
            groups.emplace_back();
        last = gpu.partition_of;
        groups.back().push_back(position);
    }
    return groups;
}

// The GPUs that a name of the grant means: several where the named one is cut up, none where it is
// not here or where a beginning of a UUID is that of several GPUs, which CUDA refuses too.
std::vector<int> find_gpus(const NodeTopology& topology, const std::vector<int>& candidates,
                           const std::string& name, bool parts_count) {
    long long index = 0;
    if (parse_integer(name, index)) {
        const auto groups = group(topology, candidates, parts_count);
        if (index < 0 || index >= static_cast<long long>(groups.size()))
            return {};
        return groups[static_cast<std::size_t>(index)];
    }
    std::vector<int> found;
    std::set<std::string> meant;
    for (const int position : candidates) {
        const Gpu& gpu = gpu_at(topology, position);
        const bool by_own = !name.empty() && gpu.uuid.starts_with(name);
        if (!by_own && (name.empty() || !gpu.partition_of.starts_with(name)))
            continue;
        found.push_back(position);
        meant.insert(by_own ? gpu.uuid : gpu.partition_of);
    }
    return meant.size() == 1 ? found : std::vector<int>{};
}

bool all_open(const NodeTopology& topology, const std::vector<int>& positions) {
    return std::all_of(positions.begin(), positions.end(),
                       [&](int position) { return gpu_at(topology, position).can_open; });
}

std::vector<int> open_ones(const NodeTopology& topology, std::vector<int> positions) {
    std::erase_if(positions, [&](int position) { return !gpu_at(topology, position).can_open; });
    return positions;
}

// Slurm's numbers count the machine's GPUs, CUDA's those that may be opened. Where Slurm said which
// they are, a mask has been brought to its numbers (allocation/granted_gpus.cpp), if it could be.
std::vector<int> counted_by_grant(const NodeTopology& topology, const GpuGrant& grant,
                                  bool by_slurm, const std::vector<int>& candidates) {
    if (grant.from.starts_with("SLURM_"))
        return candidates;
    const auto is_open = [&](const std::string& name) {
        const auto found = find_gpus(topology, candidates, name, false);
        return !found.empty() && all_open(topology, found);
    };
    if (by_slurm && std::all_of(grant.names->begin(), grant.names->end(), is_open))
        return candidates;
    return open_ones(topology, candidates);
}

// To a vendor's runtime the list ends at the first GPU that is not there.
void take_granted(UsableGpus& usable, const NodeTopology& topology, const GpuGrant& grant,
                  bool by_slurm, const std::vector<int>& candidates) {
    const bool slurm_counts = grant.from.starts_with("SLURM_");
    const auto counted = counted_by_grant(topology, grant, by_slurm, candidates);
    for (const std::string& name : *grant.names) {
        const auto found = find_gpus(topology, counted, name, slurm_counts);
        if (found.empty())
            usable.warnings.push_back(fmt::format(
                "{} names GPU {}, but this machine shows {}: {}", grant.from, name,
                count_text(counted.size()),
                slurm_counts ? "left out" : "left out, with all that are named after it"));
        if (found.empty() && !slurm_counts)
            break;
        if (!all_open(topology, found))
            usable.warnings.push_back(fmt::format(
                "{} names GPU {}, which may not be opened here: left out", grant.from, name));
        for (const int position : open_ones(topology, found))
            if (std::find(usable.positions.begin(), usable.positions.end(), position) ==
                usable.positions.end())
                usable.positions.push_back(position);
    }
}

// A variable that somebody has set once hides GPUs from every job after it.
void tell_hidden(UsableGpus& usable, const NodeTopology& topology, const std::string& from,
                 const std::vector<int>& candidates) {
    std::vector<std::string> hidden;
    for (const int position : open_ones(topology, candidates))
        if (std::find(usable.positions.begin(), usable.positions.end(), position) ==
            usable.positions.end())
            hidden.push_back(gpu_at(topology, position).bdf);
    if (hidden.empty() || !from.ends_with("_VISIBLE_DEVICES"))
        return;
    std::erase(hidden, "");
    usable.notes.push_back(fmt::format(
        "{} shows {} of {}{}", from, usable.positions.size(), count_text(candidates.size()),
        hidden.empty() ? std::string() : ", and hides " + join(hidden, ", ")));
}

// A grant names what it gave; without one nobody else says why there are fewer.
void take_open(UsableGpus& usable, const NodeTopology& topology,
               const std::vector<int>& candidates) {
    usable.positions = open_ones(topology, candidates);
    const std::size_t closed = candidates.size() - usable.positions.size();
    if (closed > 0)
        usable.warnings.push_back(
            fmt::format("{} of {} may not be opened here and {} left out: see the permissions of "
                        "their files in /dev and the device cgroup",
                        closed, count_text(candidates.size()), closed == 1 ? "is" : "are"));
}

// UUIDs mean the same GPUs whether or not a cgroup renumbers them. Parts of an AMD GPU may have
// none: then numbers.
std::vector<std::string> names_for_mask(const UsableGpus& usable, const NodeTopology& topology) {
    std::vector<std::string> uuids, numbers;
    for (const int position : usable.positions) {
        const Gpu& gpu = gpu_at(topology, position);
        if (!gpu.uuid.empty())
            uuids.push_back(gpu.uuid);
        if (gpu.runtime_index)
            numbers.push_back(std::to_string(*gpu.runtime_index));
    }
    if (uuids.size() == usable.positions.size())
        return uuids;
    return numbers.size() == usable.positions.size() ? numbers : std::vector<std::string>{};
}

// A grant that came as a visibility variable is obeyed by the vendor's runtime; one that came only
// from the scheduler is not.
void mask_others(UsableGpus& usable, const NodeTopology& topology, const GpuGrant& grant,
                 std::size_t all) {
    const bool from_scheduler = grant.from.starts_with("SLURM_") && !grant.masked;
    if (!from_scheduler || usable.positions.empty() || usable.positions.size() == all)
        return;
    if (gpu_at(topology, usable.positions.front()).vendor == "amd")
        usable.mask_variable = "ROCR_VISIBLE_DEVICES";
    usable.mask = join(names_for_mask(usable, topology), ",");
    if (usable.mask.empty())
        usable.warnings.push_back(
            fmt::format("{} grants {} of {}, but nothing hides the others from the ranks",
                        grant.from, usable.positions.size(), count_text(all)));
}

// CUDA shows a process the first MIG device of a mask and no other.
void mask_parts(UsableGpus& usable, const NodeTopology& topology) {
    if (std::none_of(usable.positions.begin(), usable.positions.end(),
                     [&](int position) { return is_mig(gpu_at(topology, position)); }))
        return;
    usable.mask_each = true;
    usable.warnings.push_back(
        "these GPUs are MIG devices: each rank sees its own alone, as device 0 (not as device "
        "LOCAL_RANK)");
}

}  // namespace

UsableGpus choose_usable_gpus(const NodeTopology& topology, const Allocation& allocation,
                              const ResourceSpec& resources) {
    UsableGpus usable;
    const std::vector<int> candidates = of_one_vendor(topology, usable.notes);
    const bool is_amd = !candidates.empty() && gpu_at(topology, candidates.front()).vendor == "amd";
    const GpuGrant& grant = is_amd ? allocation.rocm_gpus : allocation.gpus;
    if (!grant.names) {
        take_open(usable, topology, candidates);
    } else {
        take_granted(usable, topology, grant, allocation.source == "slurm", candidates);
        tell_hidden(usable, topology, grant.from, candidates);
    }
    usable.warnings.insert(usable.warnings.end(), grant.warnings.begin(), grant.warnings.end());
    mask_parts(usable, topology);
    if (!usable.mask_each)
        mask_others(usable, topology, grant, open_ones(topology, candidates).size());
    if (!resources.gpus_per_node)
        return usable;
    const int wanted = *resources.gpus_per_node;
    if (wanted > static_cast<int>(usable.positions.size())) {
        const std::string limit =
            grant.names && usable.positions.size() < candidates.size()
                ? fmt::format(" may be used here ({})", grant.from)
                : std::string(usable.positions.size() == 1 ? " is here" : " are here");
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("{} a node are asked for, but {}{}",
                        count_text(static_cast<std::size_t>(wanted)),
                        count_text(usable.positions.size()), limit),
            "lower resource_management.gpus_per_node, or leave it out to take what is there");
    }
    usable.positions.resize(static_cast<std::size_t>(std::max(wanted, 0)));
    return usable;
}

}  // namespace autolaunch::launcher
