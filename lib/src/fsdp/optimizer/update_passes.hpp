#pragma once
#include "fsdp/optimized_model.hpp"
#include "fsdp/optimizer/shard_updates.hpp"

#include <autolaunch/fsdp/optimizer.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace autolaunch::fsdp {

/// What one step is to do.
struct StepPlan {
    std::int64_t step = 1;
    double lr = 0;
    double average = 1;  ///< 1 / (N · micro_batches · loss scale)
    std::optional<double> max_grad_norm;
    bool returns_norm = true;
    bool needs_finite = true;  ///< otherwise nothing is updated; only with returns_norm

    bool needs_norm() const noexcept { return returns_norm || max_grad_norm.has_value(); }
};

/// An optimizer's state, and its passes over the shards, where the shards are: on the CPU or on a
/// GPU. Between the model's begin_step() and end_step(), on the model's stream.
///
/// Owner: the optimizer. Threads: one. Blocks: as Optimizer::step().
class UpdatePasses {
public:
    static std::unique_ptr<UpdatePasses> make(OptimizedModel& model,
                                              std::unique_ptr<Algorithm> algorithm,
                                              const UpdateOptions& options);
    virtual ~UpdatePasses() = default;

    /// Collective. The averaged gradient's norm, before clipping; 0 where the plan does not return
    /// it.
    virtual double run(const StepPlan& plan) = 0;
    /// The first gradient that is not finite, in the order of the shards.
    virtual std::optional<NonFiniteGradient> find_non_finite() = 0;
    /// Of a GPU's memory copies, which may be on their way.
    virtual void append_state(State& state) = 0;
    /// Somebody wrote to what append_state() gave out.
    virtual void take_over_state() = 0;
    virtual int threads() const noexcept = 0;
    virtual const std::vector<OptimizerShard*>& shards() const noexcept = 0;
};

/// torch.nn.utils.clip_grad_norm_'s factor; a NaN is not hidden.
double clip_factor(double norm, std::optional<double> max_norm);

/// Throws Error{unsupported} where the library was built without kernels, and for types that they
/// do not take.
std::unique_ptr<UpdatePasses> make_cuda_update_passes(OptimizedModel& model,
                                                      std::unique_ptr<Algorithm> algorithm,
                                                      const UpdateOptions& options);

}  // namespace autolaunch::fsdp
