#pragma once
#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/fsdp/sharded_model.hpp>

#include <cstdint>
#include <optional>
#include <span>

namespace autolaunch::fsdp {

/// Which ranks share the shards of one copy of the model, and which hold the same shard of
/// different copies. Rank `shard_rank` of copy `replica`. Gathers and reductions run side by side,
/// so each has a communicator of its own.
struct ShardMesh {
    int shard_count = 1;
    int shard_rank = 0;
    int replica_count = 1;
    int replica = 0;
    /// How ranks count through it; `other` where the nodes' ranks are mixed in another way.
    enum class Order { replicas_slowest, shards_slowest, other } order = Order::replicas_slowest;
    std::optional<Communicator> gather;  ///< the ranks of this copy; nothing where shard_count is 1
    std::optional<Communicator> scatter;  ///< the same ranks
    std::optional<Communicator>
        replicas;  ///< who hold the same shard; nothing where replica_count is 1
};

/// Ranks that share one copy of the model. nodes: for each rank a number that is equal on ranks of
/// one node. Pure. Throws Error{invalid_argument} where groups would have different sizes.
struct ShardGroups {
    int group_count = 1;
    int group_size = 1;
    int group = 0;  ///< of `rank`
    int rank_in_group = 0;
};
ShardGroups plan_shard_groups(const ShardedModelOptions& options,
                              std::span<const std::uint64_t> nodes, int rank);

/// What it is called. Pure.
Arrangement arrangement_of(const ShardMesh& mesh, ShardingStrategy strategy);

/// Collective. With `overlap` communicators are split off; without, `world` serves where it can.
ShardMesh make_mesh(Communicator& world, const ShardedModelOptions& options, bool overlap);

}  // namespace autolaunch::fsdp
