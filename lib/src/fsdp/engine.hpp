#pragma once
#include "fsdp/buffer_pool.hpp"
#include "fsdp/optimizer_shard.hpp"
#include "fsdp/unit_order.hpp"

#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/fsdp/sharded_model.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::fsdp {

/// What the units of one model share. Owner: the model, at a fixed address. Threads: one.
struct Engine {
    Engine(Communicator given, const ShardedModelOptions& chosen) : world(std::move(given)), options(chosen) {}

    Communicator world;
    ShardedModelOptions options;
    BufferPool pool;  // every buffer holds the largest unit's arena
    UnitOrder order;
    std::vector<std::string> unit_names;  // by unit index
    int evaluation_depth = 0;
    int unsharded_units = 0;
    bool finalized = false;
    bool order_compared = false;
    std::vector<std::unique_ptr<Unit>> units;

    /// Ranks that share one shard layout: the world, or 1 where every rank holds everything.
    int shard_count() const noexcept;
    /// Checks the event against the recorded order. On a deviation aborts the communicator, so that no other rank waits
    /// for this one, and throws Error{mismatch}.
    void observe(UnitEvent event);
    /// Collective. Throws Error{mismatch} with this text on every rank when the ranks' values differ.
    void require_equal(std::uint64_t value, const std::string& what, const std::string& hint);
    /// Throws Error{invalid_argument} before finalize().
    void require_finalized(const char* doing) const;

    // For optimizers.
    std::vector<OptimizerShard*> optimizer_shards();
    /// Collective, first thing in a step. Throws Error{invalid_argument} when parameters or gradients are whole.
    void begin_step();
    /// `value` summed over the ranks that hold different shards; itself where every rank holds everything.
    double sum_over_shards(double value, std::string_view what);
    void sum_over_shards(std::span<double> values, std::string_view what);
    /// Last thing in a step: gradients are used up.
    void end_step();
};

/// The model's calls in the flight recorder, "h.3 gradients"; then the trainer's own label is back.
class ScopedLabel {
public:
    ScopedLabel(Communicator& world, std::string_view unit, std::string_view what);
    ScopedLabel(const ScopedLabel&) = delete;
    ScopedLabel& operator=(const ScopedLabel&) = delete;
    ~ScopedLabel();

private:
    Communicator& world_;
    std::array<char, 64> before_{};
    std::size_t before_bytes_;
};

/// Throws Error{unsupported} for what this build cannot do, naming what it can.
void require_supported(const ShardedModelOptions& options);
void require_cpu(Stream stream);

/// One unit's memory and its collectives.
class Unit::Impl {
public:
    Impl(Engine& engine, std::size_t index, std::string name, std::vector<ParameterSpec> parameters);

    void allocate();
    void unshard();
    void reshard() noexcept;
    void reduce_grads();
    TensorView parameter(std::string_view name) const;
    TensorView grad(std::string_view name);

    Engine& engine() noexcept { return engine_; }
    const std::string& name() const noexcept { return name_; }
    const ShardLayout& layout() const noexcept { return layout_; }
    std::vector<ShardLayout::Interval> intervals() const;
    std::string full_name(std::size_t parameter_index) const;
    float* parameter_shard() noexcept { return parameters_.floats(); }
    /// Its has_gradient says whether reduce_grads() adds to the gradient shard or overwrites it.
    OptimizerShard& shard() noexcept { return shard_; }
    bool whole_gradient_pending() const noexcept { return static_cast<bool>(whole_gradient_); }
    std::size_t shard_elements() const noexcept { return static_cast<std::size_t>(layout_.shard_elements()); }

private:
    int shard_rank() const noexcept { return layout_.world_size() == 1 ? 0 : engine_.world.rank(); }
    void describe_shard();
    TensorView view(float* arena, std::string_view name) const;
    void sum_over_ranks(float* whole);

    Engine& engine_;
    std::size_t index_;
    std::string name_;
    ShardLayout layout_;
    AlignedBuffer parameters_;      // this rank's shard; the whole arena where there is one shard
    AlignedBuffer gradients_;       // the reduced gradient shard
    AlignedBuffer gathered_;        // the arena while unsharded, where there are several shards
    AlignedBuffer whole_gradient_;  // this rank's own gradient, from the first grad() to reduce_grads()
    int scopes_ = 0;                // of unshard() that have not ended
    OptimizerShard shard_;
};

}  // namespace autolaunch::fsdp
