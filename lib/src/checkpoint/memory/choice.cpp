#include "checkpoint/memory/choice.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

namespace autolaunch::memory {

std::vector<int> choose_keepers(std::span<const int> node_of_rank) {
    std::map<int, std::vector<int>> nodes;
    for (std::size_t rank = 0; rank < node_of_rank.size(); ++rank)
        nodes[node_of_rank[rank]].push_back(static_cast<int>(rank));
    std::vector<int> keepers(node_of_rank.size(), -1);
    if (nodes.size() < 2)
        return keepers;
    for (auto node = nodes.begin(); node != nodes.end(); ++node) {
        const auto next = std::next(node) == nodes.end() ? nodes.begin() : std::next(node);
        const auto& there = next->second;
        for (std::size_t i = 0; i < node->second.size(); ++i)
            keepers[static_cast<std::size_t>(node->second[i])] = there[i % there.size()];
    }
    return keepers;
}

int slot_to_write(const SlotStates& slots, const std::optional<SaveName>& complete) {
    if (!slots[0])
        return 0;
    if (!slots[1])
        return 1;
    if (complete && slots[0] == complete)
        return 1;
    if (complete && slots[1] == complete)
        return 0;
    return *slots[0] < *slots[1] ? 0 : 1;
}

std::optional<Restore> choose_restore(std::span<const Copy> copies, int world_size,
                                      std::int64_t before) {
    std::map<SaveName, std::map<int, Copy>> saves;
    for (const Copy& copy : copies) {
        if (copy.name.step >= before || copy.shard < 0 || copy.shard >= world_size)
            continue;
        auto& shards = saves[copy.name];
        const auto found = shards.find(copy.shard);
        if (found == shards.end() || copy.holder == copy.shard)
            shards[copy.shard] = copy;
    }
    for (auto save = saves.rbegin(); save != saves.rend(); ++save) {
        if (static_cast<int>(save->second.size()) != world_size)
            continue;
        Restore restore{save->first, {}};
        for (const auto& [shard, copy] : save->second)
            restore.copies.push_back(copy);
        return restore;
    }
    return std::nullopt;
}

}  // namespace autolaunch::memory
