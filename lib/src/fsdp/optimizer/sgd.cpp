#include <autolaunch/fsdp/sgd.hpp>

#include "fsdp/optimizer/algorithms.hpp"
#include "fsdp/optimizer/optimizer_impl.hpp"

namespace autolaunch::fsdp {

namespace {

class SGDAlgorithm : public Algorithm {
public:
    explicit SGDAlgorithm(const SGDOptions& options)
        : dampening_(options.dampening),
          nesterov_(options.nesterov),
          has_buffer_(options.momentum > 0) {
        require_option(options.momentum >= 0, name(), "momentum is negative");
        require_option(!nesterov_ || (options.momentum > 0 && dampening_ == 0), name(),
                       "nesterov needs a momentum and no dampening");
    }

    std::string_view name() const override { return "SGD"; }
    Uses uses() const override { return {.momentum = has_buffer_}; }
    std::vector<std::string_view> states() const override {
        return has_buffer_ ? std::vector<std::string_view>{".momentum_buffer"}
                           : std::vector<std::string_view>{};
    }

    void begin(const StepNumbers& numbers,
               const std::vector<ParameterSettings>& settings) override {
        factors_.clear();
        for (const ParameterSettings& s : settings) {
            require_option(s.momentum >= 0, name(), "momentum is negative");
            SGDFactors factors;
            factors.gradient_scale = static_cast<float>(numbers.gradient_scale);
            factors.weight_decay = static_cast<float>(s.weight_decay);
            factors.momentum = static_cast<float>(s.momentum);
            factors.one_minus_dampening = static_cast<float>(1.0 - dampening_);
            factors.direct = nesterov_ ? 1.0f : 0.0f;
            factors.through_buffer = nesterov_ ? factors.momentum : 1.0f;
            factors.lr = static_cast<float>(numbers.lr * s.lr_scale);
            factors_.push_back(factors);
        }
    }

    KernelFactors kernel_factors() const override {
        return {has_buffer_ ? "sgd_momentum" : "sgd", std::as_bytes(std::span(factors_))};
    }
    bool first_differs() const override { return has_buffer_; }

    void update(const OptimizerKernels& kernels, std::size_t setting, bool first,
                const ElementRange& range) const override {
        SGDFactors factors = factors_[setting];
        if (!has_buffer_)
            return kernels.sgd(factors, range);
        if (first) {  // the buffer, zero until now, becomes the gradient itself
            factors.momentum = 0;
            factors.one_minus_dampening = 1;
        }
        kernels.sgd_momentum(factors, range);
    }

private:
    double dampening_;
    bool nesterov_;
    bool has_buffer_;
    std::vector<SGDFactors> factors_;
};

}  // namespace

std::unique_ptr<Algorithm> sgd_algorithm(const SGDOptions& options) {
    return std::make_unique<SGDAlgorithm>(options);
}

SGD::SGD(ShardedModel& model, const SGDOptions& options)
    : Optimizer(Impl::make(
          model, sgd_algorithm(options), options.lr,
          {.defaults = {.weight_decay = options.weight_decay, .momentum = options.momentum},
           .decays = options.decays,
           .groups = options.groups,
           .threads = options.threads,
           .rounding_seed = options.rounding_seed})) {}

}  // namespace autolaunch::fsdp
