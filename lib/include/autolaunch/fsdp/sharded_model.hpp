#pragma once
#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/export.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::fsdp {

enum class ShardingStrategy {
    full_shard,       ///< parameters, gradients and optimizer state are sharded (ZeRO-3)
    shard_grad_op,    ///< gradients and optimizer state are sharded (ZeRO-2)
    no_shard,         ///< everything is replicated, gradients are all-reduced (DDP)
    hybrid_shard,     ///< full_shard within a group, replicated between groups
};

struct Precision {
    DataType param = DataType::f32;     ///< what unshard() gathers
    DataType reduce = DataType::f32;    ///< what reduce_grads() sums in
};

struct ShardedModelOptions {
    ShardingStrategy strategy = ShardingStrategy::full_shard;
    Precision precision;
};

/// A view of one tensor in gathered memory.
struct TensorView {
    void* bytes = nullptr;
    DataType type = DataType::f32;
    std::span<const std::int64_t> shape;
    std::int64_t count = 0;

    /// Throws Error{mismatch} when T is not the tensor's type.
    template <class T> std::span<T> as() const;
};

class Unit;

/// A unit's parameters, whole on this rank, from unshard() to the end of its scope.
class AUTOLAUNCH_API UnshardedParameters {
public:
    UnshardedParameters(UnshardedParameters&&) noexcept;
    UnshardedParameters& operator=(UnshardedParameters&&) noexcept;
    ~UnshardedParameters();    ///< reshards: the gathered memory is given back

    TensorView operator[](std::string_view name) const;

private:
    friend class Unit;
    explicit UnshardedParameters(Unit* unit) : unit_(unit) {}
    Unit* unit_;
};

/// What is gathered, computed and reduced together, usually one transformer layer. Made by ShardedModel::add_unit.
class AUTOLAUNCH_API Unit {
public:
    ~Unit();
    const std::string& name() const noexcept;
    const ShardLayout& layout() const noexcept;

    /// All-gathers the parameters (no_shard: nothing to do). Collective: all ranks call the units in the same order.
    UnshardedParameters unshard(Stream stream = {});
    /// The whole gradient of a parameter, zero when first asked for after reduce_grads(). Add to it in backward.
    TensorView grad(std::string_view name);
    /// Sums the gradients over the ranks into this rank's gradient shard, adding to what earlier micro-batches left there,
    /// and gives the whole gradient's memory back. Collective.
    void reduce_grads(Stream stream = {});

private:
    friend class ShardedModel;
    friend class UnshardedParameters;
    class Impl;
    explicit Unit(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;

public:
    Impl& impl() noexcept { return *impl_; }    // for the optimizer (private header)
};

/// A model's parameters, cut over the ranks of a communicator. Explicit calls, no hooks: the trainer says when a unit is
/// gathered and when its gradients are reduced. The order of units in the first step is recorded and must repeat.
///
/// Owner: the trainer. Threads: one. Blocks: in collectives, at most the communicator's timeout.
/// Memory per rank (P parameters, N ranks, U the largest unit, f32): full_shard 16P/N + 8U bytes with AdamW; no_shard
/// 16P. (4 bytes each of parameter, gradient and two moments.)
class AUTOLAUNCH_API ShardedModel {
public:
    explicit ShardedModel(Communicator world, const ShardedModelOptions& options = {});
    ShardedModel(ShardedModel&&) noexcept;
    ~ShardedModel();

    /// Parameter names are unique within the unit; in a checkpoint the name is "<unit>.<parameter>".
    Unit& add_unit(std::string name, std::vector<ParameterSpec> parameters);
    /// Allocates; no unit can be added after it. Parameters are zero until initialize() or a checkpoint fills them.
    void finalize();

    /// Calls `fill` for every run of elements this rank holds: (parameter's full name, its shape, index of the first
    /// element in the flattened parameter, values to write). A fill that depends only on these gives the same model on
    /// any number of ranks.
    using Fill = std::function<void(const std::string& name, std::span<const std::int64_t> shape, std::int64_t first,
                                    std::span<float> values)>;
    void initialize(const Fill& fill);

    std::span<const std::unique_ptr<Unit>> units() const noexcept;
    Unit& unit(std::string_view name);
    Communicator& world() noexcept;
    const ShardedModelOptions& options() const noexcept;
    std::int64_t parameter_count() const noexcept;    ///< of the whole model, without padding

    /// The parameters' f32 masters, for a checkpoint.
    State state();

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace autolaunch::fsdp
