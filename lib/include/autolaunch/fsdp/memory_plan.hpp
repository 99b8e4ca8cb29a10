#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/export.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>
#include <autolaunch/fsdp/sharding.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::fsdp {

/// What an optimizer keeps beside the masters. A number in f32 each: AdamW two, momentum and Lion
/// one.
enum class OptimizerKind { none, sgd_momentum, lion, adamw };

AUTOLAUNCH_API std::string_view name_of(OptimizerKind kind) noexcept;
constexpr std::int64_t state_bytes_per_parameter(OptimizerKind kind) noexcept {
    return kind == OptimizerKind::adamw ? 8 : kind == OptimizerKind::none ? 0 : 4;
}

struct MemoryPlanOptions {
    ShardingStrategy strategy = ShardingStrategy::full_shard;
    Precision precision = {};
    OptimizerKind optimizer = OptimizerKind::adamw;
    int ranks = 1;        ///< of the job
    int shard_group = 0;  ///< hybrid_shard: ranks that share one copy; divides `ranks`
    int gather_slots = 2;
    int reduce_slots = 2;
    bool keep_largest = true;
    std::int64_t merge_below_bytes = std::int64_t{8}
                                     << 20;  ///< of gathered parameters; 0: no unit is merged
    std::int64_t merge_cap_bytes = std::int64_t{256}
                                   << 20;  ///< no merging beyond it; a larger unit stays as it is
    bool accumulate_without_sync =
        false;  ///< micro-batches keep whole gradients instead of reducing each
    bool offload_optimizer = false;  ///< of a model on GPUs
    bool deterministic = false;
    bool on_gpus = false;  ///< NCCL sums in an order of its own: deterministic sums need memory to
                           ///< exchange parts
    int reductions =
        1;  ///< micro-batches of a step that reduce: with `deterministic` each doubling keeps a sum
};

/// Bytes on one rank for training with ShardedModel, without activations, the trainer's own
/// buffers, and what communicators take. All ranks have the same.
///
/// P parameters (with padding), N ranks that share one copy, U the largest bucket that takes turns
/// in slots, W those that stay whole because a slot of their size would take more
/// (ShardedModelOptions::keep_largest; each of the two kinds of slots chooses for itself), all in
/// elements; b, g, a, m the bytes of param, reduce, accumulate and master, o the optimizer's. With
/// N = 1 nothing is gathered or cut.
///
///     strategy         parameters       masters  gradients      optimizer  gather, reduce slots
///     full_shard       bW + b(P-W)/N    mP/N     gW + a(P-W)/N  oP/N       2bU, 2gU
///     shard_grad_op    bP               mP/N     gW + a(P-W)/N  oP/N       -    2gU
///     shard_optimizer  bP               mP/N     gP             oP/N       -    -
///     no_shard         bP               mP       gP             oP         -    -
///     hybrid_shard     as full_shard with N = shard_group
///
/// Each takes at most what the one below it takes, padding of small models and accumulation without
/// sync aside. Where param and
/// master are of one type, one array is both: it counts as parameters, and masters are 0. Where
/// whole gradients stay and a differs from g, gradient shards come on top (aW/N, shard_optimizer
/// aP/N, no_shard aP). Accumulation without sync adds g(P-W).
///
/// Frozen parameters count as parameters and have gather slots of their own, and nothing else.
/// offload_optimizer moves masters and the optimizer's state to the host, with copies of what
/// crosses over: (m + o + a + b)P/N. deterministic keeps gradient shards apart from whole
/// gradients, and floor(log2(reductions)) sums of 4P/N; on GPUs also what others send of a part of
/// the largest shard, 4U(N-1)/N and 64 MiB at most, here with U the largest bucket of all.
///
/// The first three rows are the ZeRO paper's Ψ-formulas (Rajbhandari et al., "ZeRO: Memory
/// Optimizations Toward Training Trillion Parameter Models", section 3 and figure 1: 2 + 2 + 12
/// bytes with b = g = 2 and f32 AdamW), with terms that the paper leaves out: slots for what is
/// gathered and reduced at a time, what stays whole, and padding.
struct MemoryPlan {
    std::int64_t parameters = 0;
    std::int64_t masters = 0;
    std::int64_t gradients = 0;
    std::int64_t optimizer = 0;
    std::int64_t gather_slots = 0;
    std::int64_t reduce_slots = 0;
    std::int64_t unsynced_gradients = 0;
    std::int64_t gradient_trees = 0;
    std::int64_t gradient_exchange = 0;
    std::int64_t on_host = 0;  ///< of offload_optimizer, in the CPU's memory: not in total()
    std::int64_t padding = 0;  ///< is in the items above already

    std::int64_t total() const noexcept {
        return parameters + masters + gradients + optimizer + gather_slots + reduce_slots +
               unsynced_gradients + gradient_trees + gradient_exchange;
    }
    bool operator==(const MemoryPlan&) const = default;
};

/// Exact: by the arenas that the units, in the model's order, are laid out in. Throws
/// Error{invalid_argument} for options that no model can have, and for what ShardLayout refuses.
AUTOLAUNCH_API MemoryPlan plan_memory(std::span<const std::vector<ParameterSpec>> units,
                                      const MemoryPlanOptions& options);

/// Rough: a model of which only sizes are known, as `layers` equal units and one of `largest_unit`
/// elements (an embedding, say; 0: there is none). Throws Error{invalid_argument} for sizes or
/// options that no model can have.
struct ModelSize {
    std::int64_t parameters = 0;
    std::int64_t layers = 1;
    std::int64_t largest_unit = 0;
};
AUTOLAUNCH_API MemoryPlan plan_memory(const ModelSize& model, const MemoryPlanOptions& options);

/// What takes most of it and what would make that less, in a line: "optimizer, 947.9 MiB of 2.04
/// GiB (45%): more ranks divide it".
AUTOLAUNCH_API std::string what_dominates(const MemoryPlan& plan, ShardingStrategy strategy);

/// How many consecutive units, from the first on, form each bucket. A bucket below `merge_below`
/// takes the next unit as long as both are at most `cap`; a last one below it joins the one before.
AUTOLAUNCH_API std::vector<std::size_t> merge_units(std::span<const std::int64_t> unit_bytes,
                                                    std::int64_t merge_below, std::int64_t cap);

}  // namespace autolaunch::fsdp
