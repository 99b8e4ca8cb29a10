#include "binding/exclusive.hpp"

#include "binding/apportion.hpp"

#include <algorithm>
#include <cstddef>

namespace autolaunch::launcher {
namespace {

using Cores = std::vector<Core>;

void sort_by_l3(Cores& cores) {
    std::sort(cores.begin(), cores.end(), [](const Core& a, const Core& b) {
        return a.l3 != b.l3 ? a.l3 < b.l3 : a.cpus.front() < b.cpus.front();
    });
}

std::vector<Cores> group_by_l3(const Cores& sorted) {
    std::vector<Cores> groups;
    for (const Core& core : sorted) {
        if (groups.empty() || groups.back().front().l3 != core.l3)
            groups.emplace_back();
        groups.back().push_back(core);
    }
    return groups;
}

std::vector<Cores> cut(const Cores& cores, const std::vector<int>& sizes) {
    std::vector<Cores> parts;
    auto at = cores.begin();
    for (const int size : sizes) {
        parts.emplace_back(at, at + size);
        at += size;
    }
    return parts;
}

std::vector<int> even_sizes(std::size_t cores, int parts) {
    return apportion(std::vector<int>(static_cast<std::size_t>(parts), 1), static_cast<int>(cores));
}

// Sizes of the parts when no L3 is shared by two parts, or no part spans two L3s.
std::vector<int> sizes_on_l3_boundaries(const std::vector<Cores>& groups, int parts) {
    std::vector<int> group_sizes, sizes;
    for (const Cores& group : groups)
        group_sizes.push_back(static_cast<int>(group.size()));
    if (parts <= static_cast<int>(groups.size())) {
        auto group = group_sizes.begin();
        for (const int count : even_sizes(groups.size(), parts)) {
            sizes.push_back(0);
            for (int i = 0; i < count; ++i)
                sizes.back() += *group++;
        }
        return sizes;
    }
    const std::vector<int> parts_of_group = apportion(group_sizes, parts);
    for (std::size_t i = 0; i < groups.size(); ++i) {
        if (parts_of_group[i] == 0 || parts_of_group[i] > group_sizes[i])
            return {};
        for (const int size : even_sizes(groups[i].size(), parts_of_group[i]))
            sizes.push_back(size);
    }
    return sizes;
}

bool is_fair(const std::vector<int>& sizes) {
    if (sizes.empty())
        return false;
    const auto [smallest, largest] = std::minmax_element(sizes.begin(), sizes.end());
    return 2 * *largest <= 3 * *smallest;
}

}  // namespace

std::vector<Cores> split_cores(Cores cores, int parts) {
    sort_by_l3(cores);
    const std::vector<int> sizes = sizes_on_l3_boundaries(group_by_l3(cores), parts);
    return cut(cores, is_fair(sizes) ? sizes : even_sizes(cores.size(), parts));
}

std::vector<Cores> choose_core_complexes(Cores cores, int parts) {
    sort_by_l3(cores);
    const std::vector<Cores> groups = group_by_l3(cores);
    std::vector<Cores> chosen;
    for (int part = 0; part < parts; ++part)
        chosen.push_back(groups[static_cast<std::size_t>(part) * groups.size() /
                                static_cast<std::size_t>(parts)]);
    return chosen;
}

}  // namespace autolaunch::launcher
