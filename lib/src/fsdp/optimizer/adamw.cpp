#include <autolaunch/fsdp/adamw.hpp>

#include "fsdp/optimizer/algorithms.hpp"
#include "fsdp/optimizer/optimizer_impl.hpp"

#include <cmath>

namespace autolaunch::fsdp {

AdamWFactors adamw_factors(double lr, double beta1, double beta2, double eps, double weight_decay,
                           std::int64_t step, double gradient_scale) {
    const auto t = static_cast<double>(step);
    AdamWFactors factors;
    factors.gradient_scale = static_cast<float>(gradient_scale);
    factors.decay = static_cast<float>(1.0 - lr * weight_decay);
    factors.beta1 = static_cast<float>(beta1);
    factors.one_minus_beta1 = static_cast<float>(1.0 - beta1);
    factors.beta2 = static_cast<float>(beta2);
    factors.one_minus_beta2 = static_cast<float>(1.0 - beta2);
    const double root_correction2 = std::sqrt(1.0 - std::pow(beta2, t));
    factors.step_size = static_cast<float>(lr * root_correction2 / (1.0 - std::pow(beta1, t)));
    factors.eps = static_cast<float>(eps * root_correction2);
    return factors;
}

namespace {

class AdamWAlgorithm : public Algorithm {
public:
    std::string_view name() const override { return "AdamW"; }
    Uses uses() const override { return {.beta1 = true, .beta2 = true, .eps = true}; }
    std::vector<std::string_view> states() const override { return {".exp_avg", ".exp_avg_sq"}; }

    void begin(const StepNumbers& numbers,
               const std::vector<ParameterSettings>& settings) override {
        factors_.clear();
        for (const ParameterSettings& s : settings) {
            require_option(s.beta1 >= 0 && s.beta1 < 1, name(), "beta1 is not in [0, 1)");
            require_option(s.beta2 >= 0 && s.beta2 < 1, name(), "beta2 is not in [0, 1)");
            require_option(s.eps >= 0, name(), "eps is negative");
            factors_.push_back(adamw_factors(numbers.lr * s.lr_scale, s.beta1, s.beta2, s.eps,
                                             s.weight_decay, numbers.step, numbers.gradient_scale));
        }
    }

    KernelFactors kernel_factors() const override {
        return {"adamw", std::as_bytes(std::span(factors_))};
    }

    void update(const OptimizerKernels& kernels, std::size_t setting, bool,
                const ElementRange& range) const override {
        kernels.adamw(factors_[setting], range);
    }

private:
    std::vector<AdamWFactors> factors_;
};

}  // namespace

std::unique_ptr<Algorithm> adamw_algorithm() { return std::make_unique<AdamWAlgorithm>(); }

AdamW::AdamW(ShardedModel& model, const AdamWOptions& options)
    : Optimizer(Impl::make(model, adamw_algorithm(), options.lr,
                           {.defaults = {.weight_decay = options.weight_decay,
                                         .beta1 = options.beta1,
                                         .beta2 = options.beta2,
                                         .eps = options.eps},
                            .decays = options.decays,
                            .groups = options.groups,
                            .threads = options.threads,
                            .rounding_seed = options.rounding_seed})) {}

}  // namespace autolaunch::fsdp
