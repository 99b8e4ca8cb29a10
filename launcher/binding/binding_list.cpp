#include "binding/binding_list.hpp"

#include "base/refuse.hpp"
#include "base/text.hpp"
#include "topology/cpu_sets.hpp"
#include "topology/system_files.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

namespace autolaunch::launcher {
namespace {

constexpr std::string_view kKey = "resource_management.binding";
constexpr std::string_view kNumaPrefix = "numa:", kCorePrefix = "core:";

/// One entry, with what its messages begin with.
class Entry {
public:
    Entry(const NodeTopology& topology, std::size_t position, std::string_view text)
        : topology_(topology),
          text_(trim(text)),
          name_(fmt::format("{}[{}] \"{}\"", kKey, position, text_)) {}

    CpuList cpus() const {
        if (text_.starts_with(kNumaPrefix))
            return of_numa_nodes(numbers(text_.substr(kNumaPrefix.size())));
        if (text_.starts_with(kCorePrefix))
            return of_cores(numbers(text_.substr(kCorePrefix.size())));
        return numbers(text_);
    }
    const std::string& name() const { return name_; }

private:
    CpuList numbers(std::string_view text) const {
        const auto list = parse_list(text);
        if (list && !list->empty())
            return *list;
        refuse(name_ + " cannot be read",
               "write CPUs (0-7,64-71), NUMA nodes (numa:1) or cores (core:0-3)");
    }
    CpuList of_numa_nodes(const CpuList& wanted) const {
        CpuList cpus, known;
        for (const NumaNode& node : topology_.numa_nodes)
            known.push_back(node.index);
        std::sort(known.begin(), known.end());
        if (const auto unknown = without(wanted, known); !unknown.empty())
            refuse(fmt::format("{}: NUMA node {} is not there, or may not be used", name_,
                               format_list(unknown)),
                   fmt::format("usable are {}", format_list(known)));
        for (const NumaNode& node : topology_.numa_nodes)
            if (std::binary_search(wanted.begin(), wanted.end(), node.index))
                cpus.insert(cpus.end(), node.cpus.begin(), node.cpus.end());
        std::sort(cpus.begin(), cpus.end());
        return cpus;
    }
    CpuList of_cores(const CpuList& wanted) const {
        const auto cores = cores_by_first_cpu(topology_);
        CpuList cpus;
        for (const int core : wanted) {
            if (core >= static_cast<int>(cores.size()))
                refuse(fmt::format("{}: {} cores may be used, so there is no core {}", name_,
                                   cores.size(), core),
                       fmt::format("count them from 0 to {}", cores.size() - 1));
            const CpuList& threads = cores[static_cast<std::size_t>(core)].cpus;
            cpus.insert(cpus.end(), threads.begin(), threads.end());
        }
        std::sort(cpus.begin(), cpus.end());
        return cpus;
    }

    const NodeTopology& topology_;
    std::string_view text_;
    std::string name_;
};

}  // namespace

std::vector<CpuList> resolve_binding_list(const NodeTopology& topology,
                                          const std::vector<std::string>& list,
                                          const std::vector<CpuList>& masks) {
    if (list.size() < masks.size())
        refuse(fmt::format("{} has {} entr{}, but {} ranks start on {}", kKey, list.size(),
                           list.size() == 1 ? "y" : "ies", masks.size(),
                           topology.hostname.empty() ? "this node" : topology.hostname),
               "give one entry a local rank, or start fewer ranks "
               "(resource_management.ranks_per_node)");
    std::vector<CpuList> sets;
    for (std::size_t rank = 0; rank < masks.size(); ++rank) {
        const Entry entry(topology, rank, list[rank]);
        CpuList cpus = entry.cpus();
        if (const auto beyond = without(cpus, masks[rank]); !beyond.empty()) {
            const bool of_task = masks[rank] != topology.allowed_cpus;
            refuse(fmt::format("{}: CPUs {} may not be used{}", entry.name(), format_list(beyond),
                               of_task ? " by this rank's task" : ""),
                   fmt::format("allowed are {}; name some of these, or ask the scheduler for more",
                               format_list(masks[rank])));
        }
        sets.push_back(std::move(cpus));
    }
    return sets;
}

}  // namespace autolaunch::launcher
