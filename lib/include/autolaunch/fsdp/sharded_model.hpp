#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/borrowed.hpp>
#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/error.hpp>
#include <autolaunch/export.hpp>
#include <autolaunch/fsdp/memory_plan.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>
#include <autolaunch/fsdp/sharding.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace autolaunch::fsdp {

struct ShardedModelOptions {
    ShardingStrategy strategy = ShardingStrategy::full_shard;
    Precision precision = {};
    /// hybrid_shard: ranks that share one copy of the model; 0: those of a node.
    int shard_group = 0;
    /// Bytes. What is gathered and reduced together is a bucket of consecutive units: one below
    /// merge_below takes the next unit, as long as both have no more than merge_cap. 0: each unit
    /// is a bucket.
    std::int64_t merge_below = std::int64_t{8} << 20;
    std::int64_t merge_cap = std::int64_t{256} << 20;
    /// Buckets in memory at once: those used last stay until a slot is wanted or the optimizer
    /// stepped. With two the next bucket is gathered while one is used.
    int gather_slots = 2;
    int reduce_slots =
        2;  ///< whole gradients in memory at once: one is reduced while backward adds to the other
    /// A slot is as large as the largest bucket that takes turns in it. Where that takes more
    /// memory than they do themselves, the largest buckets (an embedding beside small layers) take
    /// no turns: parameters stay whole as under shard_grad_op, gradients as under shard_optimizer.
    /// So full_shard never takes more than shard_grad_op, nor that more than shard_optimizer.
    /// false: all take turns.
    bool keep_largest = true;
    /// Gathers and reductions run beside the computation, each on a thread of its own, from the
    /// second step on the gathers ahead of it. They do by default, also where a rank has one CPU:
    /// measured, no step of 2 ms or more was slower for it (docs/performance.md). false: in
    /// between, on the trainer's thread.
    std::optional<bool> overlap = std::nullopt;
    /// Training gives the same bits on 1, 2, 4, 8, … ranks when the i-th of a step's reduce_grads()
    /// on rank r of N is of the global batch's part i·N + r. Sums are then one pairwise tree in f32
    /// over all parts. A communicator of CPUs must sum in fixed order; GPUs exchange parts instead.
    /// Takes a shard of memory for each doubling of micro-batches. hybrid_shard then sums between
    /// groups in each micro-batch.
    bool deterministic = false;
    /// On GPUs: masters and the optimizer's state are in the CPU's memory, and the CPU updates.
    /// Each bucket's gradient comes over while others are looked at, its parameters go back while
    /// others are updated. On CPUs nothing changes.
    bool offload_optimizer = false;
    /// Each rank looks for NaNs and infinities in its gradients before they are summed, in one pass
    /// on the reduction's thread, so that an optimizer can say who made them.
    bool find_nonfinite = true;
    /// For debugging, on CPUs: gathered parameters read as NaN while their unit is not unsharded,
    /// and gradients that take turns in memory from their reduction on, so that a pointer that
    /// outlived its scope shows, instead of working until another unit takes the memory. Costs two
    /// copies a scope, and memory for the copies. Debug builds of the library
    /// (without NDEBUG) always do it.
    bool find_dangling = false;
};

/// A view of one tensor in gathered memory: of a parameter until its unit's scope ends
/// (UnshardedParameters), of a gradient until reduce_grads().
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
            throw Error(ErrorCode::mismatch, "the tensor holds " + std::string(name_of(type)) +
                                                 ", not " + std::string(name_of(asked)));
        }
        return {static_cast<T*>(bytes), static_cast<std::size_t>(count)};
    }
    /// The first element, for code that takes pointers: params["w"].data(). Good as long as the
    /// view.
    template <class T = float>
    T* data() const {
        return as<T>().data();
    }
};

class Unit;

/// A unit's parameters, whole on this rank, from unshard() to the end of its scope. On a GPU: for
/// what is put on unshard()'s stream in the scope.
class AUTOLAUNCH_API UnshardedParameters {
public:
    UnshardedParameters(UnshardedParameters&&) noexcept;
    UnshardedParameters& operator=(UnshardedParameters&&) noexcept;
    ~UnshardedParameters();  ///< reshards: the gathered memory is given back

    /// Throws Error{invalid_argument} naming the nearest name when there is none.
    TensorView operator[](std::string_view name) const&;
    TensorView operator[](std::string_view name) const&& AUTOLAUNCH_NOT_FROM_A_TEMPORARY;

private:
    friend class Unit;
    UnshardedParameters(Unit* unit, Stream stream) : unit_(unit), stream_(stream) {}
    Unit* unit_;
    Stream stream_;
};

struct UnitOptions {
    /// false: its parameters stay gathered from their first use in a step to the optimizer's, as
    /// under shard_grad_op.
    bool reshard_after_forward = true;
};

/// What the trainer gathers and reduces together, usually one transformer layer. Made by
/// ShardedModel::add_unit.
///
/// Tied parameters belong to one unit: its scope may be open while others' are, and other units'
/// backward may add to its gradients until its reduce_grads(). Each scope or unreduced gradient
/// beyond the slots costs another buffer.
class AUTOLAUNCH_API Unit {
public:
    class Impl;  // private header: lib/src/fsdp/model_engine.hpp
    ~Unit();
    const std::string& name() const noexcept;
    std::span<const ParameterSpec> parameters() const noexcept;

    /// All-gathers the parameters where they are not whole already; the stream waits for that, and
    /// without one the caller. Collective: all ranks call the units in the same order, and nest
    /// scopes alike. A unit that is unsharded is not gathered again; it is resharded when the last
    /// of its scopes ends.
    [[nodiscard]] UnshardedParameters unshard(Stream stream = {});
    /// The whole gradient of a trainable parameter, zero when first asked for after it was reduced.
    /// Add to it in backward; ask again in the next backward. On a GPU: on the stream of the latest
    /// call that was given one.
    TensorView grad(std::string_view name);
    /// The gradients are complete on this rank: starts their sum over the ranks into this rank's
    /// gradient shard, added to what earlier micro-batches left there. Collective. Accumulation
    /// without communication: call it after the last micro-batch only; whole gradients then stay in
    /// memory.
    void reduce_grads(Stream stream = {});

    Impl& impl() noexcept { return *impl_; }  // for the library

private:
    friend class ShardedModel;
    friend class UnshardedParameters;
    explicit Unit(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

/// While it lives, units may be unsharded in any order, the same on all ranks, which here nobody
/// checks: for an evaluation pass. Gradients may not be asked for, and no step be taken.
class AUTOLAUNCH_API EvaluationScope {
public:
    EvaluationScope(EvaluationScope&& other) noexcept
        : depth_(std::exchange(other.depth_, nullptr)) {}
    EvaluationScope& operator=(EvaluationScope&&) = delete;
    ~EvaluationScope() {
        if (depth_)
            --*depth_;
    }

private:
    friend class ShardedModel;
    explicit EvaluationScope(int* depth) : depth_(depth) { ++*depth_; }
    int* depth_;
};

/// Bytes that a model and its optimizer have allocated on this rank. Of ranks that share memory
/// (shm on one node) each counts what it allocated; the kernel's VmHWM and RSS count what others
/// allocated as well as soon as this rank reads it (docs/memory.md).
struct ModelMemory {
    std::size_t parameters = 0;       ///< shards, or whole where they stay so
    std::size_t masters = 0;          ///< where they are of another type than the parameters
    std::size_t gradients = 0;        ///< reduced shards
    std::size_t gathered = 0;         ///< gather slots
    std::size_t whole_gradients = 0;  ///< reduce slots, or whole gradients where they stay; none
                                      ///< before the first training call
    std::size_t optimizer = 0;        ///< its state: none before there is one
    /// With ShardedModelOptions::offload_optimizer: masters, the optimizer's state and copies in
    /// the CPU's memory; not in total().
    std::size_t on_host = 0;
    std::size_t total() const noexcept {
        return parameters + masters + gradients + gathered + whole_gradients + optimizer;
    }
};

/// A model's parameters, cut over the ranks of a communicator, in the memory of the device that
/// this is of: of the CPU, or with backend nccl of a GPU. On a GPU every call puts its work on the
/// stream that it is given, CUDA's default stream where none is, and on streams of the library's
/// own that wait for it and it for them, by events: the host waits for nothing in a step but the
/// norm, where Optimizer::step() is to return it. Explicit calls, no hooks: the trainer says when a
/// unit is gathered and when its gradients are reduced. The order of units from one optimizer step
/// to the next is recorded the first time and must repeat: a rank that deviates throws
/// Error{mismatch} and aborts the communicators, so that the others throw too instead of waiting
/// for it. Evaluation passes are exempt inside evaluation(). What a reduction or a gather beside
/// the computation fails with is thrown by the next call, with the unit's name.
///
/// Owner: the trainer. Threads: one; it has two of its own where communication overlaps. Blocks: in
/// collectives, at most the communicator's timeout. Memory: ShardingStrategy, and memory() as it
/// is.
class AUTOLAUNCH_API ShardedModel {
public:
    explicit ShardedModel(Communicator world, const ShardedModelOptions& options = {});
    /// What was made for the other one, units and optimizers, goes on with this one. Assigning ends
    /// the model that was here, and its optimizers must have ended before.
    ShardedModel(ShardedModel&& other) noexcept;
    ShardedModel& operator=(ShardedModel&& other) noexcept;
    ~ShardedModel();

    /// Parameter names are unique within the unit; in a checkpoint the name is
    /// "<unit>.<parameter>".
    Unit& add_unit(std::string name, std::vector<ParameterSpec> parameters,
                   const UnitOptions& options = {}) &;
    Unit& add_unit(std::string name, std::vector<ParameterSpec> parameters,
                   const UnitOptions& options = {}) &&
        AUTOLAUNCH_NOT_FROM_A_TEMPORARY;
    /// Allocates; no unit can be added after it. Parameters are zero until initialize() or a
    /// checkpoint fills them. Collective: throws Error{mismatch} on every rank when the ranks do
    /// not have the same units and shapes. Returns memory_plan(): what_dominates() says what takes
    /// most of it.
    MemoryPlan finalize();

    /// Calls `fill` for every run of elements this rank holds: (parameter's full name, its shape,
    /// index of the first element in the flattened parameter, values to write). A fill that depends
    /// only on these gives the same model on any number of ranks. Where there are copies of the
    /// model (no_shard, hybrid_shard) all begin with the first one's values. Collective, as
    /// refresh_parameters() is.
    using Fill = std::function<void(const std::string& name, std::span<const std::int64_t> shape,
                                    std::int64_t first, std::span<float> values)>;
    void initialize(const Fill& fill);
    /// After somebody wrote to state()'s memory, as Checkpointer::load does, which calls this by
    /// itself: what is gathered follows the masters. Between steps, on all ranks.
    void refresh_parameters();

    /// Gives up the step under way, after an exception that every rank caught or a loss that is of
    /// no use: gradients since the last Optimizer::step() count no more, and the next call begins a
    /// step. Collective, at the same point of the order on all ranks: else throws Error{mismatch}
    /// on every rank. No unit may be unsharded.
    void discard_step();

    /// For passes without gradients, outside the recorded order: auto scope = model.evaluation();
    [[nodiscard]] EvaluationScope evaluation() &;
    EvaluationScope evaluation() && AUTOLAUNCH_NOT_FROM_A_TEMPORARY;

    std::span<const std::unique_ptr<Unit>> units() const& noexcept;
    std::span<const std::unique_ptr<Unit>> units() const&& AUTOLAUNCH_NOT_FROM_A_TEMPORARY;
    /// Throws Error{invalid_argument} naming the nearest name when there is none.
    Unit& unit(std::string_view name) &;
    Unit& unit(std::string_view name) && AUTOLAUNCH_NOT_FROM_A_TEMPORARY;
    Communicator& world() & noexcept;
    Communicator& world() && AUTOLAUNCH_NOT_FROM_A_TEMPORARY;
    const ShardedModelOptions& options() const& noexcept;
    const ShardedModelOptions& options() const&& AUTOLAUNCH_NOT_FROM_A_TEMPORARY;
    std::int64_t parameter_count() const noexcept;  ///< of the whole model, without padding

    /// What training with such an optimizer takes on this rank, item by item, where each of
    /// `reductions` micro-batches of a step reduces.
    MemoryPlan memory_plan(OptimizerKind optimizer = OptimizerKind::adamw,
                           int reductions = 1) const;
    /// What is allocated now.
    ModelMemory memory() const;
    /// Of the communicator's ranks.
    Arrangement arrangement() const;

    /// The parameters' masters, and frozen parameters, for a checkpoint. Of a GPU's memory these
    /// are copies in the CPU's, as of this call; what is written to them counts from
    /// refresh_parameters() on.
    State state() &;
    State state() && AUTOLAUNCH_NOT_FROM_A_TEMPORARY;
    /// As state(), to be saved: the copies of a GPU's memory have only begun
    /// (StateTensor::arrival). They go on beside the computation; the next step waits for them on
    /// the GPU, the host does not. Nobody writes to them.
    State state_to_save() &;
    State state_to_save() && AUTOLAUNCH_NOT_FROM_A_TEMPORARY;

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace autolaunch::fsdp
