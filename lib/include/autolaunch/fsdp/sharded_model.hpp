#pragma once
#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/error.hpp>
#include <autolaunch/export.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>
#include <autolaunch/fsdp/sharding.hpp>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace autolaunch::fsdp {

/// This build does full_shard and no_shard in f32; anything else throws Error{unsupported}.
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
    template <class T>
    std::span<T> as() const {
        constexpr DataType asked = data_type_of<std::remove_const_t<T>>;
        if (asked != type) {
            throw Error(ErrorCode::mismatch,
                        "the tensor holds " + std::string(name_of(type)) + ", not " + std::string(name_of(asked)));
        }
        return {static_cast<T*>(bytes), static_cast<std::size_t>(count)};
    }
};

class Unit;

/// A unit's parameters, whole on this rank, from unshard() to the end of its scope.
class AUTOLAUNCH_API UnshardedParameters {
public:
    UnshardedParameters(UnshardedParameters&&) noexcept;
    UnshardedParameters& operator=(UnshardedParameters&&) noexcept;
    ~UnshardedParameters();  ///< reshards: the gathered memory is given back

    /// Throws Error{invalid_argument} naming the nearest name when there is none.
    TensorView operator[](std::string_view name) const;

private:
    friend class Unit;
    explicit UnshardedParameters(Unit* unit) : unit_(unit) {}
    Unit* unit_;
};

/// What is gathered, computed and reduced together, usually one transformer layer. Made by ShardedModel::add_unit.
class AUTOLAUNCH_API Unit {
public:
    class Impl;  // private header: lib/src/fsdp/engine.hpp
    ~Unit();
    const std::string& name() const noexcept;
    const ShardLayout& layout() const noexcept;

    /// All-gathers the parameters (no_shard: nothing to do). Collective: all ranks call the units in the same order. A
    /// unit that is unsharded already is not gathered again; it is resharded when the last of its scopes ends.
    UnshardedParameters unshard(Stream stream = {});
    /// The whole gradient of a parameter, zero when first asked for after reduce_grads(). Add to it in backward.
    TensorView grad(std::string_view name);
    /// Sums the gradients over the ranks into this rank's gradient shard, adding to what earlier micro-batches left
    /// there, and gives the whole gradient's memory back. Collective.
    void reduce_grads(Stream stream = {});

    Impl& impl() noexcept { return *impl_; }  // for the optimizer

private:
    friend class ShardedModel;
    friend class UnshardedParameters;
    explicit Unit(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

/// While it lives, units may be unsharded in any order: for an evaluation pass between two steps. Gradients may not be
/// asked for.
class AUTOLAUNCH_API EvaluationScope {
public:
    EvaluationScope(EvaluationScope&& other) noexcept : depth_(std::exchange(other.depth_, nullptr)) {}
    EvaluationScope& operator=(EvaluationScope&&) = delete;
    ~EvaluationScope() {
        if (depth_) --*depth_;
    }

private:
    friend class ShardedModel;
    explicit EvaluationScope(int* depth) : depth_(depth) { ++*depth_; }
    int* depth_;
};

/// A model's parameters, cut over the ranks of a communicator. Explicit calls, no hooks: the trainer says when a unit
/// is gathered and when its gradients are reduced. The order of units from one optimizer step to the next is recorded
/// the first time and must repeat: a rank that deviates throws Error{mismatch} and aborts the communicator, so that the
/// others throw too instead of waiting for it. Evaluation passes are exempt inside evaluation().
///
/// Owner: the trainer. Threads: one. Blocks: in collectives, at most the communicator's timeout.
/// Memory per rank (P parameters, N ranks, U the largest unit, f32): full_shard 16P/N bytes with AdamW (4 each of
/// parameter, gradient and two moments), no_shard 16P; plus 4U for every unit's parameters and every unit's whole
/// gradient that are in use at once, usually one of each. With one rank, and under no_shard, parameters are not copied.
class AUTOLAUNCH_API ShardedModel {
public:
    explicit ShardedModel(Communicator world, const ShardedModelOptions& options = {});
    ShardedModel(ShardedModel&&) noexcept;
    ~ShardedModel();

    /// Parameter names are unique within the unit; in a checkpoint the name is "<unit>.<parameter>".
    Unit& add_unit(std::string name, std::vector<ParameterSpec> parameters);
    /// Allocates; no unit can be added after it. Parameters are zero until initialize() or a checkpoint fills them.
    /// Collective: throws Error{mismatch} on every rank when the ranks do not have the same units and shapes.
    void finalize();

    /// Calls `fill` for every run of elements this rank holds: (parameter's full name, its shape, index of the first
    /// element in the flattened parameter, values to write). A fill that depends only on these gives the same model on
    /// any number of ranks.
    using Fill = std::function<void(const std::string& name, std::span<const std::int64_t> shape, std::int64_t first,
                                    std::span<float> values)>;
    void initialize(const Fill& fill);

    /// For passes without gradients, outside the recorded order: auto scope = model.evaluation();
    [[nodiscard]] EvaluationScope evaluation();

    std::span<const std::unique_ptr<Unit>> units() const noexcept;
    /// Throws Error{invalid_argument} naming the nearest name when there is none.
    Unit& unit(std::string_view name);
    Communicator& world() noexcept;
    const ShardedModelOptions& options() const noexcept;
    std::int64_t parameter_count() const noexcept;  ///< of the whole model, without padding

    /// The parameters' f32 masters, for a checkpoint.
    State state();

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace autolaunch::fsdp
