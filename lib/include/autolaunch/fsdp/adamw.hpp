#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/fsdp/optimizer.hpp>

namespace autolaunch::fsdp {

/// Doubles, because 1 - 0.999f is off by 1e-5: torch works these out in double too.
struct AdamWOptions {
    double lr = 1e-3;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 0.01;
    /// Parameters that decay; by default those with two dimensions or more (not biases, not norms).
    /// The name is the full one.
    std::function<bool(const ParameterSpec&)> decays = {};
    std::vector<ParameterGroup> groups = {};
    int threads = 0;                  ///< 0: as many as this rank has CPUs
    std::uint64_t rounding_seed = 0;  ///< of stochastic rounding; equal on all ranks
};

/// AdamW with decoupled weight decay (Loshchilov & Hutter, "Decoupled Weight Decay Regularization",
/// algorithm 2):
///     m = beta1 m + (1-beta1) g;  v = beta2 v + (1-beta2) g²
///     p = p (1 - lr·wd) - lr · m/(1-beta1^t) / (sqrt(v/(1-beta2^t)) + eps)
/// as torch.optim.AdamW defines it, with the corrections taken out of the fraction (Kingma & Ba,
/// "Adam", end of section 2), so not always to the same last bit. t counts the optimizer's steps,
/// for all parameters alike; torch counts each parameter's own, which differs where one is trained
/// from a later step on. 28 bytes a parameter pass through memory, and 4 more for the norm. State:
/// "<parameter>.exp_avg" (m) and "<parameter>.exp_avg_sq" (v).
class AUTOLAUNCH_API AdamW : public Optimizer {
public:
    explicit AdamW(ShardedModel& model, const AdamWOptions& options = {});
};

}  // namespace autolaunch::fsdp
