#include <autolaunch/fsdp/lion.hpp>

#include "fsdp/optimizer/algorithms.hpp"
#include "fsdp/optimizer/optimizer_impl.hpp"

namespace autolaunch::fsdp {

namespace {

class LionAlgorithm : public Algorithm {
public:
    std::string_view name() const override { return "Lion"; }
    Uses uses() const override { return {.beta1 = true, .beta2 = true}; }
    std::vector<std::string_view> states() const override { return {".exp_avg"}; }

    void begin(const StepNumbers& numbers,
               const std::vector<ParameterSettings>& settings) override {
        factors_.clear();
        for (const ParameterSettings& s : settings) {
            require_option(s.beta1 >= 0 && s.beta1 < 1, name(), "beta1 is not in [0, 1)");
            require_option(s.beta2 >= 0 && s.beta2 < 1, name(), "beta2 is not in [0, 1)");
            const double lr = numbers.lr * s.lr_scale;
            LionFactors factors;
            factors.gradient_scale = static_cast<float>(numbers.gradient_scale);
            factors.decay = static_cast<float>(1.0 - lr * s.weight_decay);
            factors.beta1 = static_cast<float>(s.beta1);
            factors.one_minus_beta1 = static_cast<float>(1.0 - s.beta1);
            factors.beta2 = static_cast<float>(s.beta2);
            factors.one_minus_beta2 = static_cast<float>(1.0 - s.beta2);
            factors.lr = static_cast<float>(lr);
            factors_.push_back(factors);
        }
    }

    KernelFactors kernel_factors() const override {
        return {"lion", std::as_bytes(std::span(factors_))};
    }

    void update(const OptimizerKernels& kernels, std::size_t setting, bool,
                const ElementRange& range) const override {
        kernels.lion(factors_[setting], range);
    }

private:
    std::vector<LionFactors> factors_;
};

}  // namespace

std::unique_ptr<Algorithm> lion_algorithm() { return std::make_unique<LionAlgorithm>(); }

Lion::Lion(ShardedModel& model, const LionOptions& options)
    : Optimizer(Impl::make(model, lion_algorithm(), options.lr,
                           {.defaults = {.weight_decay = options.weight_decay,
                                         .beta1 = options.beta1,
                                         .beta2 = options.beta2},
                            .decays = options.decays,
                            .groups = options.groups,
                            .threads = options.threads,
                            .rounding_seed = options.rounding_seed})) {}

}  // namespace autolaunch::fsdp
