#include "placement_watch/drift.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace autolaunch::launcher {
namespace {

constexpr double kMostElsewhere = 0.1;
constexpr std::uint64_t kSmallBytes = std::uint64_t{256} << 20;

const char* plural(std::size_t count) { return count == 1 ? "" : "s"; }

double gibibytes(std::uint64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(std::uint64_t{1} << 30);
}

}  // namespace

bool is_within(const std::vector<int>& cpus, const PlannedPlacement& planned) {
    return planned.cpus.empty() ||
           std::includes(planned.cpus.begin(), planned.cpus.end(), cpus.begin(), cpus.end());
}

std::optional<std::string> find_cpu_drift(const std::vector<ThreadPlacement>& threads,
                                          const PlannedPlacement& planned) {
    const ThreadPlacement* first = nullptr;
    std::size_t more = 0;
    for (const ThreadPlacement& thread : threads) {
        if (is_within(thread.cpus, planned))
            continue;
        if (first == nullptr) {
            first = &thread;
        } else {
            ++more;
        }
    }
    if (first == nullptr)
        return std::nullopt;
    return fmt::format("may run on CPU{} {}, planned {} {} (thread {}{})",
                       plural(first->cpus.size()), format_list(first->cpus),
                       planned.cpus.size() == 1 ? "was" : "were", format_list(planned.cpus),
                       first->name, more == 0 ? "" : fmt::format(", and {} more", more));
}

std::optional<std::string> find_memory_drift(const MemoryPlacement& bytes,
                                             const PlannedPlacement& planned) {
    if (planned.memory_nodes.empty())
        return std::nullopt;
    std::uint64_t all = 0, elsewhere = 0;
    std::vector<int> nodes;
    for (const auto& [node, count] : bytes) {
        all += count;
        const auto& near = planned.memory_nodes;
        if (count == 0 || std::find(near.begin(), near.end(), node) != near.end())
            continue;
        elsewhere += count;
        nodes.push_back(node);
    }
    const double share = all == 0 ? 0 : static_cast<double>(elsewhere) / static_cast<double>(all);
    if (elsewhere < kSmallBytes || share < kMostElsewhere)
        return std::nullopt;
    return fmt::format("has {:.0f} % of its memory ({:.1f} GiB) on NUMA node{} {}, planned was {}",
                       100 * share, gibibytes(elsewhere), plural(nodes.size()), format_list(nodes),
                       format_list(planned.memory_nodes));
}

}  // namespace autolaunch::launcher
