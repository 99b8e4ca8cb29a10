#include "control/fence_table.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>

namespace autolaunch::launcher {

namespace {

[[noreturn]] void mismatch(int node, const control::Fence& fence, const std::string& what) {
    throw Error(ErrorCode::mismatch, "fence \"" + fence.name + "\" of generation " +
                                         std::to_string(fence.generation) + ": node " +
                                         std::to_string(node) + " " + what);
}

}  // namespace

FenceTable::Pending FenceTable::open(const control::Fence& fence) const {
    Pending pending;
    pending.nodes = fence.nodes;
    pending.seen.assign(static_cast<std::size_t>(node_count_), !fence.nodes.empty());
    if (fence.nodes.empty() && !left_out_.empty()) {
        pending.seen = left_out_;
        pending.seen.resize(static_cast<std::size_t>(node_count_), true);
    }
    pending.missing =
        static_cast<std::size_t>(std::count(pending.seen.begin(), pending.seen.end(), false));
    if (fence.nodes.empty())
        return pending;
    pending.missing = 0;
    for (const int node : fence.nodes) {
        if (node < 0 || node >= node_count_)
            mismatch(node, fence, "does not exist");
        if (pending.seen[static_cast<std::size_t>(node)])
            ++pending.missing;
        pending.seen[static_cast<std::size_t>(node)] = false;
    }
    return pending;
}

std::optional<FenceTable::Completed> FenceTable::contribute(int node, control::Fence&& fence) {
    if (fence.generation < generation_)
        return std::nullopt;
    std::sort(fence.nodes.begin(), fence.nodes.end());
    if (!fence.nodes.empty() && !std::binary_search(fence.nodes.begin(), fence.nodes.end(), node))
        mismatch(node, fence, "is not in it");
    const std::pair key(fence.generation, fence.name);
    auto found = pending_.find(key);
    if (found == pending_.end())
        found = pending_.emplace(key, open(fence)).first;
    Pending& pending = found->second;
    if (pending.nodes != fence.nodes)
        mismatch(node, fence, "means other nodes than those before it");
    if (static_cast<std::size_t>(node) >= pending.seen.size())
        mismatch(node, fence, "had not come when it began");
    if (pending.seen[static_cast<std::size_t>(node)])
        mismatch(node, fence, "contributes twice");
    pending.seen[static_cast<std::size_t>(node)] = true;
    if (!fence.blob.empty())
        pending.blobs.emplace_back(node, std::move(fence.blob));
    if (--pending.missing > 0)
        return std::nullopt;
    Completed completed{fence.name, std::move(pending.nodes), std::move(pending.blobs)};
    pending_.erase(found);
    std::sort(completed.blobs.begin(), completed.blobs.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    return completed;
}

void FenceTable::begin_generation(int generation, const std::vector<int>& ranks_per_node) {
    if (!ranks_per_node.empty()) {
        left_out_.assign(static_cast<std::size_t>(node_count_), false);
        for (std::size_t node = 0; node < left_out_.size() && node < ranks_per_node.size(); ++node)
            left_out_[node] = ranks_per_node[node] == 0;
    }
    generation_ = std::max(generation_, generation);
    pending_.erase(pending_.begin(), pending_.lower_bound({generation_, std::string()}));
}

}  // namespace autolaunch::launcher
