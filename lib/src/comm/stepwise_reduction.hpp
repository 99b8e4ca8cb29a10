#pragma once
// How elements travel where a reduction takes several steps.
#include "comm/call.hpp"

#include <autolaunch/comm/types.hpp>

#include <cstddef>

namespace autolaunch {

/// Halves travel as f32, so that they are rounded once; elements of pre_multiplied_sum are
/// multiplied before they leave; sums of avg are divided after the last step. In between a step is
/// reduce_elements() of `travelling` by step_op(): steps that pair neighbours, then pairs of
/// neighbours, … give the bits of one reduce_elements() over all ranks.
struct StepwiseReduction {
    StepwiseReduction(const CollectiveCall& call, int group_size);

    ReduceOp step_op() const;
    /// Whether inputs are not sent as they are: prepare() them.
    bool rewrites() const;
    /// Whether sums are not yet the result: finish() them.
    bool finishes() const;
    std::size_t bytes() const { return size_of(travelling); }

    void prepare(const void* from, void* to, std::size_t count) const;
    /// `sums` may be `to` unless these are halves; they are overwritten.
    void finish(void* sums, void* to, std::size_t count) const;

    DataType type;
    bool halves;
    DataType travelling;
    ReduceOp op;
    std::size_t ranks;
};

}  // namespace autolaunch
