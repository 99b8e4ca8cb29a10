#pragma once
#include <autolaunch/comm/types.hpp>
#include <autolaunch/export.hpp>

#include <optional>
#include <string_view>

namespace autolaunch::fsdp {

enum class ShardingStrategy {
    full_shard,       ///< parameters, gradients and optimizer state are sharded (ZeRO-3)
    shard_grad_op,    ///< gradients and optimizer state are sharded (ZeRO-2)
    shard_optimizer,  ///< optimizer state is sharded (ZeRO-1)
    no_shard,         ///< everything is replicated, gradients are all-reduced (DDP)
    hybrid_shard,     ///< full_shard within a group, replicated between groups
};

/// "full_shard", …
AUTOLAUNCH_API std::string_view name_of(ShardingStrategy strategy) noexcept;
/// The strategy of that name; nothing for other text.
AUTOLAUNCH_API std::optional<ShardingStrategy> sharding_strategy_from(std::string_view name) noexcept;

/// The types that a model's numbers have on their way.
struct Precision {
    DataType param = DataType::f32;       ///< what unshard() gathers
    DataType reduce = DataType::f32;      ///< of grad()'s whole gradients, and what reduce_grads() sends
    DataType accumulate = DataType::f32;  ///< of the gradient shard
    DataType master = DataType::f32;      ///< what the optimizer updates: f32, or the parameters' own type
};

}  // namespace autolaunch::fsdp
