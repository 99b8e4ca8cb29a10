#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/fsdp/optimizer.hpp>

namespace autolaunch::fsdp {

struct SGDOptions {
    double lr = 1e-3;
    double momentum = 0;
    double dampening = 0;
    double weight_decay = 0;
    bool nesterov = false;  ///< needs a momentum and no dampening
    /// Parameters that decay; by default those with two dimensions or more (torch's decay all). The
    /// name is the full one.
    std::function<bool(const ParameterSpec&)> decays = {};
    std::vector<ParameterGroup> groups = {};  ///< a group's momentum needs one in the options
    int threads = 0;                          ///< 0: as many as this rank has CPUs
    std::uint64_t rounding_seed = 0;          ///< of stochastic rounding; equal on all ranks
};

/// Stochastic gradient descent as torch.optim.SGD's documentation has it:
///     d = g + wd·p;  b = momentum·b + (1 - dampening) d, but b = d the first time
///     p = p - lr · (nesterov ? d + momentum·b : b)
/// Without momentum p = p - lr·d. 20 bytes a parameter pass through memory, 12 without momentum,
/// and 4 more for the norm. State: "<parameter>.momentum_buffer" (b), where there is a momentum.
class AUTOLAUNCH_API SGD : public Optimizer {
public:
    explicit SGD(ShardedModel& model, const SGDOptions& options = {});
};

}  // namespace autolaunch::fsdp
