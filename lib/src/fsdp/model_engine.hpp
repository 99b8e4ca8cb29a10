#pragma once
#include "fsdp/bucket.hpp"
#include "fsdp/communicator_watch.hpp"
#include "fsdp/gradient_reducer.hpp"
#include "fsdp/lane.hpp"
#include "fsdp/model_device.hpp"
#include "fsdp/optimizer_shard.hpp"
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
struct ModelEngine {
    ModelEngine(Communicator given, const ShardedModelOptions& chosen);
    ~ModelEngine();

    Communicator world;
    ShardedModelOptions options;
    std::unique_ptr<ModelDevice> device;
    /// The trainer's, as its latest call gave it.
    Stream stream;
    UnitOrder order;
    std::vector<std::string> unit_names;  // by unit index
    std::vector<std::unique_ptr<Unit>> units;
    int evaluation_depth = 0;
    int unsharded_units = 0;
    bool finalized = false;
    bool order_compared = false;

    // From finalize() on. The lanes end first: their jobs use the others.
    ShardMesh mesh;
    std::shared_ptr<CommunicatorWatch> calls =
        std::make_shared<CommunicatorWatch>();  // all there are, on a GPU
    std::deque<Bucket> buckets;
    std::optional<ParameterGatherer> gatherer;
    std::optional<GradientReducer> reducer;
    std::optional<StateMirror> masters;  // what state() gave out
    std::unique_ptr<Lane> gather_lane;
    std::unique_ptr<Lane> reduce_lane;

    /// Collective: makes the mesh, the buckets and their memory.
    void finalize();
    /// First thing in each of the trainer's calls: throws what a lane's call failed with, and
    /// Error{invalid_argument} before finalize().
    void begin_call(const char* doing);
    /// Throws what a call on a lane or on a stream failed with.
    void check_calls();
    /// First thing where gradients are meant, and in unshard() outside evaluation(): allocates what
    /// training needs. A model that is only evaluated has no gradient memory.
    void begin_training();
    /// Collective: all copies of the shard's masters are as the first one.
    void copy_to_replicas(const Bucket& bucket, const OptimizerShard& shard);
    /// Checks the event against the recorded order. On a deviation aborts the communicators, so
    /// that no other rank waits for this one, and throws Error{mismatch}.
    void observe(UnitEvent event);
    /// Gathers what the recorded order unshards next, as far as there are slots.
    void prefetch();
    /// The stream is what the trainer's work is on from here on. Throws Error{unsupported} for one
    /// of elsewhere.
    void use_stream(Stream given) { stream = device->stream_for(given); }
    /// Whether the recorded order reduces the bucket again before the step; true where that is not
    /// known.
    bool reduces_again(Bucket& bucket) const;
    void abort(const std::string& reason);
    /// Collective. Throws Error{mismatch} with this text on every rank when the ranks' values
    /// differ.
    void require_equal(std::uint64_t value, const std::string& what, const std::string& hint);
    /// Throws Error{invalid_argument} before finalize().
    void require_finalized(const char* doing) const;

    // For optimizers.
    std::vector<OptimizerShard*> optimizer_shards();
    /// Collective, first thing in a step: gradients are whole sums from here on. Throws
    /// Error{invalid_argument} when parameters are unsharded or gradients not yet reduced.
    void begin_step();
    /// Summed over the ranks that hold different shards; themselves where every rank holds
    /// everything.
    void sum_over_shards(std::span<double> values, std::string_view what);
    /// The same on the stream, of values on the GPU.
    void sum_over_shards_on_stream(double* values, std::size_t count, std::string_view what);
    /// Collective, between begin_step() and end_step(), where the gradients turned out not to be
    /// finite: when any rank's own gradient had a NaN or an infinity before it was summed, throws
    /// Error{invalid_argument} on every rank, naming the first such rank, its unit and parameter.
    /// Returns when none had, or when ranks do not look (ShardedModelOptions::find_nonfinite).
    void require_finite_contributions();
    /// Collective: what was added and reduced since the last step counts no more, and the step
    /// begins anew.
    void discard_step();
    /// Last thing in a step: gradients are used up, and parameters are gathered anew.
    void end_step();

private:
    void require_no_scope(const char* doing) const;
    bool ranks_want_overlap();
    void gather_ahead(int buckets, std::span<Bucket* const> in_use);
    std::vector<UnitToPlan> units_to_plan() const;
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
