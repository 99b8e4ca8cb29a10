#include "fsdp/shard_mesh.hpp"

#include "base/file_io.hpp"
#include "base/hash.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace autolaunch::fsdp {

namespace {

// Each rank's node: the kernel that it runs on.
std::vector<std::uint64_t> nodes_of(Communicator& world) {
    const std::string boot = read_file("/proc/sys/kernel/random/boot_id");
    const std::uint64_t own = hash64(boot.data(), boot.size());
    std::vector<std::uint64_t> nodes(static_cast<std::size_t>(world.size()));
    world.all_gather(&own, nodes.data(), 1, DataType::u64).wait();
    return nodes;
}

ShardGroups groups_of(int group_size, int rank, int ranks) {
    if (ranks % group_size != 0)
        throw Error(ErrorCode::invalid_argument,
                    "shard_group " + std::to_string(group_size) + " does not divide " +
                        std::to_string(ranks) + " ranks",
                    "choose a divisor, so that every copy of the model has as many shards");
    return {ranks / group_size, group_size, rank / group_size, rank % group_size};
}

ShardGroups groups_by_node(std::span<const std::uint64_t> nodes, int rank) {
    const std::uint64_t own = nodes[static_cast<std::size_t>(rank)];
    std::vector<std::uint64_t> distinct;  // by first rank
    for (const std::uint64_t node : nodes)
        if (std::find(distinct.begin(), distinct.end(), node) == distinct.end())
            distinct.push_back(node);
    const auto size = std::count(nodes.begin(), nodes.end(), own);
    for (const std::uint64_t node : distinct) {
        if (std::count(nodes.begin(), nodes.end(), node) != size)
            throw Error(ErrorCode::invalid_argument,
                        "hybrid_shard: the nodes have different numbers of ranks",
                        "set shard_group to a number of ranks that divides them all");
    }
    const auto group = std::find(distinct.begin(), distinct.end(), own) - distinct.begin();
    const auto before = std::count(nodes.begin(), nodes.begin() + rank, own);
    return {static_cast<int>(distinct.size()), static_cast<int>(size), static_cast<int>(group),
            static_cast<int>(before)};
}

// The same on all ranks. Collective.
ShardMesh::Order order_of(Communicator& world, const ShardGroups& groups) {
    if (groups.group_count == 1 || groups.group_size == 1)
        return ShardMesh::Order::replicas_slowest;
    const int by_replica = groups.group * groups.group_size + groups.rank_in_group;
    const int by_shard = groups.rank_in_group * groups.group_count + groups.group;
    if (!world.any_rank(by_replica != world.rank()))
        return ShardMesh::Order::replicas_slowest;
    return world.any_rank(by_shard != world.rank()) ? ShardMesh::Order::other
                                                    : ShardMesh::Order::shards_slowest;
}

}  // namespace

Arrangement arrangement_of(const ShardMesh& mesh, ShardingStrategy strategy) {
    Arrangement arrangement{std::string(name_of(strategy)), {}};
    const Arrangement::Dimension replicas{"replica", mesh.replica_count},
        shards{"shard", mesh.shard_count};
    if (strategy == ShardingStrategy::no_shard)
        arrangement.mesh = {replicas};
    else if (strategy != ShardingStrategy::hybrid_shard)
        arrangement.mesh = {shards};
    else if (mesh.order == ShardMesh::Order::replicas_slowest)
        arrangement.mesh = {replicas, shards};
    else if (mesh.order == ShardMesh::Order::shards_slowest)
        arrangement.mesh = {shards, replicas};
    return arrangement;
}

ShardGroups plan_shard_groups(const ShardedModelOptions& options,
                              std::span<const std::uint64_t> nodes, int rank) {
    const int ranks = static_cast<int>(nodes.size());
    if (options.strategy == ShardingStrategy::no_shard)
        return groups_of(1, rank, ranks);
    if (options.strategy != ShardingStrategy::hybrid_shard)
        return groups_of(ranks, rank, ranks);
    if (options.shard_group < 0)
        throw Error(ErrorCode::invalid_argument, "shard_group is negative");
    return options.shard_group == 0 ? groups_by_node(nodes, rank)
                                    : groups_of(options.shard_group, rank, ranks);
}

ShardMesh make_mesh(Communicator& world, const ShardedModelOptions& options, bool overlap) {
    const ShardGroups groups = plan_shard_groups(options, nodes_of(world), world.rank());
    ShardMesh mesh{.shard_count = groups.group_size,
                   .shard_rank = groups.rank_in_group,
                   .replica_count = groups.group_count,
                   .replica = groups.group,
                   .order = order_of(world, groups),
                   .gather = {},
                   .scatter = {},
                   .replicas = {}};
    // World serves where no other communicator is needed: some cost hundreds of MiB each.
    const auto part = [&](int color, int key, int size) -> std::optional<Communicator> {
        if (size == 1)
            return std::nullopt;
        if (size == world.size() && !overlap)
            return world;
        return world.split(color, key);
    };
    mesh.gather = part(groups.group, groups.rank_in_group, groups.group_size);
    mesh.scatter =
        overlap ? part(groups.group, groups.rank_in_group, groups.group_size) : mesh.gather;
    mesh.replicas = part(groups.rank_in_group, groups.group, groups.group_count);
    return mesh;
}

}  // namespace autolaunch::fsdp
