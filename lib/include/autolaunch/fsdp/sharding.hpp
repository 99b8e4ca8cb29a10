#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/comm/types.hpp>
#include <autolaunch/export.hpp>

#include <optional>
#include <string_view>

namespace autolaunch::fsdp {

/// Memory per rank, with P parameters, N ranks, U the largest bucket that takes turns in slots
/// (about one layer), W larger ones that stay whole, an embedding say, and bytes an element: b of
/// Precision::param, m of master (0 where it is param's type), a of accumulate, g of reduce, o of
/// the optimizer's state (8 for AdamW); 2 slots each for what is gathered and reduced. Each takes
/// at most what the next one takes. memory_plan.hpp has the exact form.
enum class ShardingStrategy {
    full_shard,       ///< all is sharded (ZeRO-3): bW + b(P-W)/N + (m+o)P/N + gW + a(P-W)/N + 2bU +
                      ///< 2gU
    shard_grad_op,    ///< parameters are whole, the rest is sharded (ZeRO-2): bP + (m+o)P/N + gW +
                      ///< a(P-W)/N + 2gU
    shard_optimizer,  ///< the gradient that backward adds to is whole, too (ZeRO-1): (b+g)P +
                      ///< (m+o)P/N
    no_shard,         ///< all is replicated, gradients are all-reduced (DDP): (b+m+g+o)P
    hybrid_shard,  ///< full_shard within groups of ranks, replicated between them: as full_shard, N
                   ///< = shard_group
};

/// "full_shard", …
AUTOLAUNCH_API std::string_view name_of(ShardingStrategy strategy) noexcept;
/// The strategy of that name; nothing for other text.
AUTOLAUNCH_API std::optional<ShardingStrategy> sharding_strategy_from(
    std::string_view name) noexcept;

/// The types that a model's numbers have on their way: each f32, bf16 or f16.
struct Precision {
    DataType param = DataType::f32;  ///< what unshard() gathers
    DataType reduce =
        DataType::f32;  ///< of grad()'s whole gradients, and what reduce_grads() sends
    DataType accumulate = DataType::f32;  ///< of the gradient shard
    DataType master =
        DataType::f32;  ///< what the optimizer updates: f32, or the parameters' own type
};

}  // namespace autolaunch::fsdp
