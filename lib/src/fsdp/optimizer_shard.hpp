#pragma once
// What the engine and the optimizers share. The engine owns all memory; an optimizer reads
// gradients, and writes masters and what ranks gather.
#include <autolaunch/comm/types.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::fsdp {

/// This rank's shard of one arena: what an optimizer updates in one pass. Owner: the engine, from
/// finalize() on at a fixed address. Threads: one.
struct OptimizerShard {
    /// Elements of one parameter that lie together.
    struct Run {
        const ParameterSpec* parameter = nullptr;
        std::string full_name;              ///< "<unit>.<parameter>"
        std::int64_t parameter_offset = 0;  ///< first element, in the row-major flattened parameter
        std::int64_t shard_offset = 0;      ///< where it lies in the shard
        std::int64_t count = 0;
    };

    std::string name;          ///< of its unit
    std::size_t elements = 0;  ///< with padding, whose gradient is zero
    std::vector<Run> runs;     ///< in shard order; padding belongs to none

    DataType master_type = DataType::f32;
    void* master = nullptr;
    /// What unshard() gathers, to be written with each update; null where that is the master
    /// itself.
    void* param = nullptr;
    DataType param_type = DataType::f32;
    /// Summed over ranks and micro-batches, neither averaged nor unscaled.
    const void* gradient = nullptr;
    DataType gradient_type = DataType::f32;
    bool has_gradient =
        false;  ///< since the last step; without one an optimizer leaves the shard alone

    /// Appends one tensor for each parameter of the arena, this rank's pieces of it in `memory`,
    /// laid out as the shard. `suffix` follows the parameter's full name.
    void append_state(State& state, void* memory, DataType type, std::string_view suffix,
                      const std::shared_ptr<const StateArrival>& arrival = nullptr) const;

    /// Every parameter of the arena, also those that this rank holds nothing of: name and shape.
    std::vector<StateTensor> tensors;
};

}  // namespace autolaunch::fsdp
