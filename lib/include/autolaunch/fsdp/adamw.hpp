#pragma once
#include <autolaunch/export.hpp>
#include <autolaunch/fsdp/sharded_model.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace autolaunch::fsdp {

struct AdamWOptions {
    float lr = 1e-3f;
    float beta1 = 0.9f;
    float beta2 = 0.999f;
    float eps = 1e-8f;
    float weight_decay = 0.01f;
    /// Parameters that decay; by default those with two dimensions or more (not biases, not norms).
    std::function<bool(const ParameterSpec&)> decays;
};

struct StepOptions {
    std::optional<float> lr;               ///< this step's learning rate, for schedules
    std::optional<float> max_grad_norm;    ///< clip the whole model's gradient to this 2-norm
    int micro_batches = 1;                 ///< gradients are divided by world size * micro_batches
};

struct StepResult {
    double grad_norm = 0;    ///< 2-norm of the averaged gradient of the whole model, before clipping
};

/// AdamW with decoupled weight decay (Loshchilov & Hutter, "Decoupled Weight Decay Regularization", algorithm 2), on this
/// rank's shard:
///     m = beta1 m + (1-beta1) g;  v = beta2 v + (1-beta2) g²
///     p = p (1 - lr·wd) - lr · m/(1-beta1^t) / (sqrt(v/(1-beta2^t)) + eps)
/// as torch.optim.AdamW computes it. g is the summed gradient times 1/(N · micro_batches) and the clip factor.
///
/// Threads: one. Blocks: in one all-reduce of one number, when clipping or when the norm is asked for.
class AUTOLAUNCH_API AdamW {
public:
    explicit AdamW(ShardedModel& model, const AdamWOptions& options = {});
    AdamW(AdamW&&) noexcept;
    ~AdamW();

    /// Collective. Zeroes the gradients.
    StepResult step(const StepOptions& options = {}, Stream stream = {});
    std::int64_t step_count() const noexcept;
    void set_step_count(std::int64_t steps) noexcept;    ///< after loading a checkpoint

    /// "<parameter>.exp_avg" and "<parameter>.exp_avg_sq", for a checkpoint.
    State state();

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace autolaunch::fsdp
