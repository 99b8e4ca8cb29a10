#include "fsdp/optimizer/update_passes.hpp"

#include "fsdp/optimizer/offloaded_update_passes.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace autolaunch::fsdp {

namespace {

class CpuUpdatePasses final : public UpdatePasses {
public:
    CpuUpdatePasses(OptimizedModel& model, std::unique_ptr<Algorithm> algorithm,
                    const UpdateOptions& options)
        : model_(model), updates_(model.optimizer_shards(), std::move(algorithm), options) {}

    double run(const StepPlan& plan) override {
        const double norm = plan.needs_norm() ? gradient_norm() * plan.average : 0;
        if (!plan.needs_finite || std::isfinite(norm))
            updates_.update(
                {plan.step, plan.lr, plan.average * clip_factor(norm, plan.max_grad_norm)});
        return plan.returns_norm ? norm : 0;
    }

    std::optional<NonFiniteGradient> find_non_finite() override {
        return updates_.find_non_finite();
    }
    void append_state(State& state) override { updates_.append_state(state); }
    void take_over_state() override {}
    int threads() const noexcept override { return updates_.threads(); }
    const std::vector<OptimizerShard*>& shards() const noexcept override {
        return updates_.shards();
    }

private:
    double gradient_norm() {
        auto words = updates_.sum_of_squares().words();
        model_.sum_over_shards(std::span<double>(words), "gradient norm");
        return std::sqrt(ExactSum::from_words(words).value());
    }

    OptimizedModel& model_;
    ShardUpdates updates_;
};

}  // namespace

double clip_factor(double norm, std::optional<double> max_norm) {
    if (!max_norm)
        return 1;
    if (std::isnan(norm))
        return norm;
    return std::min(1.0, *max_norm / (norm + 1e-6));
}

std::unique_ptr<UpdatePasses> UpdatePasses::make(OptimizedModel& model,
                                                 std::unique_ptr<Algorithm> algorithm,
                                                 const UpdateOptions& options) {
    if (model.device().is_gpu() && model.options().offload_optimizer)
        return std::make_unique<OffloadedUpdatePasses>(model, std::move(algorithm), options);
    if (model.device().is_gpu())
        return make_cuda_update_passes(model, std::move(algorithm), options);
    return std::make_unique<CpuUpdatePasses>(model, std::move(algorithm), options);
}

}  // namespace autolaunch::fsdp
