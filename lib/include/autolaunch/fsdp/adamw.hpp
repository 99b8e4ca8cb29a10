#pragma once
#include <autolaunch/export.hpp>
#include <autolaunch/fsdp/sharded_model.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace autolaunch::fsdp {

/// Doubles, because 1 - 0.999f is off by 1e-5: torch works these out in double too.
struct AdamWOptions {
    double lr = 1e-3;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 0.01;
    /// Parameters that decay; by default those with two dimensions or more (not biases, not norms).
    std::function<bool(const ParameterSpec&)> decays;
};

struct StepOptions {
    std::optional<double> lr;             ///< this step's learning rate, for schedules
    std::optional<double> max_grad_norm;  ///< clip the whole model's gradient to this 2-norm
    int micro_batches = 1;                ///< gradients are divided by world size * micro_batches
};

struct StepResult {
    double grad_norm = 0;  ///< 2-norm of the averaged gradient of the whole model, before clipping
};

/// AdamW with decoupled weight decay (Loshchilov & Hutter, "Decoupled Weight Decay Regularization", algorithm 2), on
/// this rank's shard:
///     m = beta1 m + (1-beta1) g;  v = beta2 v + (1-beta2) g²
///     p = p (1 - lr·wd) - lr · m/(1-beta1^t) / (sqrt(v/(1-beta2^t)) + eps)
/// as torch.optim.AdamW computes it. g is the summed gradient times 1/(N · micro_batches) and the clip factor, which is
/// torch.nn.utils.clip_grad_norm_'s: min(1, max_grad_norm / (norm + 1e-6)). A unit whose gradient was not reduced since
/// the last step keeps its parameters and moments, as a torch parameter without a gradient does.
///
/// Owner: the trainer; the model must outlive it (moving the model is fine). Threads: one. Blocks: in one all-reduce of
/// one number (full_shard), at most the communicator's timeout.
class AUTOLAUNCH_API AdamW {
public:
    explicit AdamW(ShardedModel& model, const AdamWOptions& options = {});
    AdamW(AdamW&&) noexcept;
    ~AdamW();

    /// Collective. Zeroes the gradients. No unit may be unsharded. The first step also compares the order of units
    /// across ranks; throws Error{mismatch} on every rank when they differ.
    StepResult step(const StepOptions& options = {}, Stream stream = {});
    std::int64_t step_count() const noexcept;
    void set_step_count(std::int64_t steps) noexcept;  ///< after loading a checkpoint

    /// "<parameter>.exp_avg" and "<parameter>.exp_avg_sq", for a checkpoint.
    State state();

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace autolaunch::fsdp
