#pragma once
#include "fsdp/optimizer/algorithm.hpp"
#include "fsdp/optimizer/exact_sum.hpp"
#include "fsdp/optimizer/parameter_groups.hpp"
#include "fsdp/optimizer/worker_pool.hpp"
#include "fsdp/optimizer_shard.hpp"

#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::fsdp {

struct UpdateOptions {
    ParameterSettings defaults;
    SettingsOfParameters::Decays decays;
    std::vector<ParameterGroup> groups;
    int threads = 0;
    std::uint64_t rounding_seed = 0;
};

/// Where a gradient is infinite or NaN.
struct NonFiniteGradient {
    std::size_t shard = 0;
    std::size_t tensor = 0;    ///< in the shard's list of tensors
    std::int64_t element = 0;  ///< in the row-major flattened parameter
    float value = 0;
};

/// What the random bits of a parameter are made from in a step.
RoundingKey rounding_key(std::uint64_t seed, std::int64_t step, std::uint64_t name_hash);
/// The tensors of all shards, one after the other.
std::vector<StateTensor> all_tensors(const std::vector<OptimizerShard*>& shards);
/// Where element `index` of a shard is in its parameters.
NonFiniteGradient place_of(const std::vector<OptimizerShard*>& shards, std::size_t shard,
                           const OptimizerShard::Run& run, std::int64_t parameter_element,
                           float value);

/// Appends "<unit>.state_written", one byte that all ranks have alike: 0 while the unit never had a
/// gradient.
void append_written(State& state, const OptimizerShard& shard, std::uint8_t& written);

/// An optimizer's state of one shard: zeros at first, in large pages where the kernel gives them,
/// because an update goes through several such arrays at once.
class AUTOLAUNCH_API StateMemory {
public:
    explicit StateMemory(std::size_t elements);

    float* floats() const noexcept { return memory_.get(); }
    std::byte* data() const noexcept { return reinterpret_cast<std::byte*>(memory_.get()); }

private:
    struct Free {
        void operator()(float* memory) const noexcept { std::free(memory); }
    };
    std::unique_ptr<float, Free> memory_;
};

/// Some of the shards, that lie together.
struct ShardRange {
    std::size_t begin = 0;
    std::size_t end = SIZE_MAX;
    bool contains(std::size_t shard) const noexcept { return begin <= shard && shard < end; }
};

/// An optimizer's state for some shards, and the passes over them: the norm's and the update's.
/// Knows no other ranks.
///
/// The shards are cut into slices of one parameter each, which threads take one after the other.
/// Memory is read and written once, whatever the types.
class AUTOLAUNCH_API ShardUpdates {
public:
    /// The shards must outlive it. Throws Error{invalid_argument} for groups that make no sense,
    /// Error{unsupported} for types.
    ShardUpdates(std::vector<OptimizerShard*> shards, std::unique_ptr<Algorithm> algorithm,
                 const UpdateOptions& options);

    /// Of the gradients as they are. Padding is not looked at.
    ExactSum sum_of_squares(const ShardRange& range = {});
    /// The first in the order of the shards.
    std::optional<NonFiniteGradient> find_non_finite() const;
    void update(const StepNumbers& numbers, const ShardRange& range = {});

    void append_state(State& state);
    int threads() const noexcept { return workers_.size(); }
    const std::vector<OptimizerShard*>& shards() const noexcept { return shards_; }

    /// For tests: other kernels than the best.
    void use_kernels(const OptimizerKernels& kernels) { kernels_ = &kernels; }

private:
    struct ShardState {
        std::vector<StateMemory>
            tensors;               // laid out as the shard, one for each of the algorithm's states
        std::uint8_t written = 0;  // part of the state: a checkpoint has it where it matters
    };
    struct Slice {
        std::size_t shard = 0;
        std::size_t setting = 0;
        std::uint64_t name_hash = 0;
        std::int64_t parameter_offset = 0;
        std::int64_t shard_offset = 0;
        std::size_t count = 0;
    };

    void cut(std::size_t shard);
    void update_slice(const Slice& slice, std::int64_t step) const;
    std::vector<const Slice*> slices_with_gradient(const ShardRange& range = {}) const;

    std::vector<OptimizerShard*> shards_;
    std::unique_ptr<Algorithm> algorithm_;
    SettingsOfParameters settings_;
    std::uint64_t rounding_seed_;
    const OptimizerKernels* kernels_;
    std::vector<ShardState> states_;  // by shard
    std::vector<Slice> slices_;
    WorkerPool workers_;
};

}  // namespace autolaunch::fsdp
