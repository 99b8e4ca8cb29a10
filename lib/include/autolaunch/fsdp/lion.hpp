#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/fsdp/optimizer.hpp>

namespace autolaunch::fsdp {

/// The paper advises a learning rate 3 to 10 times smaller than AdamW's, and a weight decay as many
/// times larger.
struct LionOptions {
    double lr = 1e-4;
    double beta1 = 0.9;
    double beta2 = 0.99;
    double weight_decay = 0;
    /// Parameters that decay; by default those with two dimensions or more (not biases, not norms).
    /// The name is the full one.
    std::function<bool(const ParameterSpec&)> decays = {};
    std::vector<ParameterGroup> groups = {};
    int threads = 0;                  ///< 0: as many as this rank has CPUs
    std::uint64_t rounding_seed = 0;  ///< of stochastic rounding; equal on all ranks
};

/// Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023, algorithm 2):
///     c = beta1 m + (1-beta1) g;  p = p - lr · (sign(c) + wd·p);  m = beta2 m + (1-beta2) g
/// Half of AdamW's state: 20 bytes a parameter pass through memory, and 4 more for the norm.
/// State: "<parameter>.exp_avg" (m).
class AUTOLAUNCH_API Lion : public Optimizer {
public:
    explicit Lion(ShardedModel& model, const LionOptions& options = {});
};

}  // namespace autolaunch::fsdp
