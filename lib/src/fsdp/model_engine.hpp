#pragma once
#include "fsdp/bucket.hpp"
#include "fsdp/communicator_watch.hpp"
#include "fsdp/gradient_reducer.hpp"
#include "fsdp/lane.hpp"
#include "fsdp/model_device.hpp"
#include "fsdp/optimized_model.hpp"
#include "fsdp/parameter_gatherer.hpp"
#include "fsdp/shard_mesh.hpp"
#include "fsdp/state_mirror.hpp"
#include "fsdp/unit_order.hpp"

#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/fsdp/sharded_model.hpp>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::fsdp {

/// What the units of one model share. Owner: the model, at a fixed address. Threads: the trainer's.
class ModelEngine final : public OptimizedModel {
public:
    ModelEngine(Communicator given, const ShardedModelOptions& chosen);
    ~ModelEngine();

    Communicator& world() noexcept override { return world_; }
    const ShardedModelOptions& options() const noexcept override { return options_; }
    ModelDevice& device() noexcept override { return *device_; }
    Stream stream() const noexcept override { return stream_; }
    void use_stream(Stream given) override { stream_ = device_->stream_for(given); }
    void require_finalized(const char* doing) const override;
    void require_equal(std::uint64_t value, const std::string& what,
                       const std::string& hint) override;
    void check_calls() override;

    // For the model.
    /// Before finalize().
    Unit& add(std::unique_ptr<Unit> unit);
    const std::vector<std::unique_ptr<Unit>>& units() const noexcept { return units_; }
    const std::vector<std::string>& unit_names() const noexcept { return unit_names_; }
    /// Collective: makes the mesh, the buckets and their memory.
    void finalize();
    bool is_finalized() const noexcept { return finalized_; }
    /// From here on somebody writes to the masters: nothing is on its way to or from them.
    void begin_writing_masters();
    /// Collective: all copies of the shard's masters are as the first one.
    void copy_to_replicas(const Bucket& bucket, const OptimizerShard& shard);
    /// What is gathered follows the masters. Throws Error{invalid_argument} while a unit is
    /// unsharded.
    void refresh_parameters();
    /// Collective: what was added and reduced since the last step counts no more, and the step
    /// begins anew.
    void discard_step();
    /// Nothing reads the masters from here on.
    void wait_for_gathers() { gather_lane_->synchronize(); }
    /// The masters' copies, which may be on their way from a GPU.
    void append_state(State& state);
    ModelMemory memory() const;
    MemoryPlan memory_plan(OptimizerKind optimizer, int reductions) const;
    const ShardMesh& mesh() const noexcept { return mesh_; }
    /// Of the scopes of evaluation() that are open.
    int& evaluation_depth() noexcept { return evaluation_depth_; }

    // For units.
    /// First thing in each of the trainer's calls: throws what a lane's call failed with, and
    /// Error{invalid_argument} before finalize().
    void begin_call(const char* doing);
    /// First thing where gradients are meant, and in unshard() outside evaluation(): allocates what
    /// training needs. A model that is only evaluated has no gradient memory.
    void begin_training();
    bool is_evaluating() const noexcept { return evaluation_depth_ > 0; }
    /// How many are unsharded.
    void count_unsharded(int change) noexcept { unsharded_units_ += change; }
    /// Checks the event against the recorded order. On a deviation aborts the communicators, so
    /// that no other rank waits for this one, and throws Error{mismatch}.
    void observe(UnitEvent event);
    /// Gathers what the recorded order unshards next, as far as there are slots.
    void prefetch();
    /// Whether the recorded order reduces the bucket again before the step; true where that is not
    /// known.
    bool reduces_again(Bucket& bucket) const;
    /// The order is recorded anew: for a rank that goes another way alone, which others notice by
    /// its silence only. Tests do that.
    void forget_order() { order_ = {}; }
    ParameterGatherer& gatherer() noexcept { return *gatherer_; }
    GradientReducer& reducer() noexcept { return *reducer_; }

    // For optimizers (model_step.cpp).
    std::shared_ptr<std::size_t> optimizer_bytes() override { return optimizer_bytes_; }
    std::shared_ptr<const CommunicatorWatch> calls() const override { return calls_; }
    std::vector<Bucket*> trainable_buckets() override;
    std::vector<OptimizerShard*> optimizer_shards() override;
    void begin_step() override;
    void sum_over_shards(std::span<double> values, std::string_view what) override;
    void sum_over_shards_on_stream(double* values, std::size_t count,
                                   std::string_view what) override;
    void require_finite_contributions() override;
    void end_step() override;

private:
    void require_no_scope(const char* doing) const;
    bool ranks_want_overlap();
    void gather_ahead(int buckets, std::span<Bucket* const> in_use);
    std::vector<UnitToPlan> units_to_plan() const;
    Communicator& of_shards();
    void abort(const std::string& reason);

    Communicator world_;
    ShardedModelOptions options_;
    std::unique_ptr<ModelDevice> device_;
    Stream stream_;
    UnitOrder order_;
    std::vector<std::string> unit_names_;  // by unit index
    std::vector<std::unique_ptr<Unit>> units_;
    std::shared_ptr<std::size_t> optimizer_bytes_ = std::make_shared<std::size_t>(0);
    int evaluation_depth_ = 0;
    int unsharded_units_ = 0;
    bool finalized_ = false;
    bool order_compared_ = false;

    // From finalize() on. The lanes end first: their jobs use the others.
    ShardMesh mesh_;
    std::shared_ptr<CommunicatorWatch> calls_ =
        std::make_shared<CommunicatorWatch>();  // all there are, on a GPU
    std::deque<Bucket> buckets_;
    std::optional<ParameterGatherer> gatherer_;
    std::optional<GradientReducer> reducer_;
    std::optional<StateMirror> masters_;  // what state() gave out
    std::unique_ptr<Lane> gather_lane_;
    std::unique_ptr<Lane> reduce_lane_;
};

/// Throws Error{unsupported} for what this build cannot do, naming what it can, and
/// Error{invalid_argument}.
void require_supported(const ShardedModelOptions& options);

/// One unit: names for parts of buckets.
class Unit::Impl {
public:
    Impl(ModelEngine& engine, std::size_t index, std::string name,
         std::vector<ParameterSpec> parameters, const UnitOptions& options);

    /// What the scope is on.
    Stream unshard(Stream stream);
    void reshard(Stream stream) noexcept;
    void reduce_grads(Stream stream);
    TensorView parameter(std::string_view name) const;
    TensorView grad(std::string_view name);

    ModelEngine& engine() noexcept { return engine_; }
    const std::string& name() const noexcept { return name_; }
    const std::vector<ParameterSpec>& parameters() const noexcept { return parameters_; }
    const UnitOptions& options() const noexcept { return options_; }
    std::string full_name(std::size_t parameter_index) const {
        return name_ + "." + parameters_[parameter_index].name;
    }
    std::span<Bucket* const> buckets() const noexcept { return buckets_; }
    /// Its parameters at these indices are in the bucket, in this order from `first_placement` on.
    void place(Bucket& bucket, std::span<const std::size_t> parameters,
               std::size_t first_placement);
    bool has_unreduced_gradient() const;
    /// Calls `use(bucket, shard)` for this unit's parts, trainable parameters first.
    template <class Use>
    void for_each_shard(Use use) const {
        for (Bucket* bucket : buckets_)
            use(*bucket, bucket->member(index_).shard);
    }

private:
    struct Place {
        Bucket* bucket = nullptr;
        std::int64_t offset = 0;
    };
    std::size_t index_of(std::string_view name) const;
    TensorView view(std::byte* arena, DataType type, std::size_t parameter_index) const;

    ModelEngine& engine_;
    std::size_t index_;
    std::string name_;
    std::vector<ParameterSpec> parameters_;
    UnitOptions options_;
    std::vector<Place> places_;     // by parameter
    std::vector<Bucket*> buckets_;  // one of trainable parameters, one of frozen ones, or both
    int scopes_ = 0;                // of unshard() that have not ended
};

}  // namespace autolaunch::fsdp
