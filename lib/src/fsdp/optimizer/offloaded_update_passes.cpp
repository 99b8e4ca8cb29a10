#include "fsdp/optimizer/offloaded_update_passes.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace autolaunch::fsdp {

OffloadedUpdatePasses::OffloadedUpdatePasses(OptimizedModel& model,
                                             std::unique_ptr<Algorithm> algorithm,
                                             const UpdateOptions& options)
    : model_(model),
      updates_(model.optimizer_shards(), std::move(algorithm), options),
      down_lane_(model.device().make_lane({}, true)),
      up_lane_(model.device().make_lane({}, true)) {
    std::size_t shard = 0;
    for (Bucket* bucket : model.trainable_buckets()) {
        parts_.push_back({bucket, {shard, shard + bucket->members().size()}, {}, {}});
        shard += bucket->members().size();
    }
    std::reverse(parts_.begin(), parts_.end());
}

void OffloadedUpdatePasses::fetch() {
    const Fence reduced[] = {model_.device().record(model_.stream())};
    for (Part& part : parts_) {
        const auto copy = [this, bucket = part.bucket](Stream lane) {
            model_.device().copy(bucket->host_gradient(), bucket->gradient_shard(),
                                 bucket->shard_elements() * size_of(bucket->gradient_type()), lane);
        };
        part.down = down_lane_->submit(part.bucket->name(), "gradients to the CPU", copy, reduced);
    }
}

double OffloadedUpdatePasses::gradient_norm() {
    ExactSum sum;
    for (const Part& part : parts_) {
        model_.device().wait(part.down);
        sum.add(updates_.sum_of_squares(part.shards));
    }
    sum.carry();
    auto words = sum.words();
    model_.sum_over_shards(std::span<double>(words), "gradient norm");
    return std::sqrt(ExactSum::from_words(words).value());
}

void OffloadedUpdatePasses::update(const StepNumbers& numbers) {
    for (Part& part : parts_) {
        model_.device().wait(part.down);
        model_.device().wait(part.up);  // of the step before: it read what is written now
        updates_.update(numbers, part.shards);
        const auto copy = [this, bucket = part.bucket](Stream lane) {
            model_.device().copy(bucket->param_shard(), bucket->host_param(),
                                 bucket->shard_elements() * size_of(bucket->param_type()), lane);
        };
        const Fence readable[] = {
            part.down};  // by then all gathers of the old parameters are over, too
        part.up = up_lane_->submit(part.bucket->name(), "parameters to the GPU", copy, readable);
    }
    model_.device().wait(model_.stream(), up_lane_->latest());
}

double OffloadedUpdatePasses::run(const StepPlan& plan) {
    fetch();
    const double norm = plan.needs_norm() ? gradient_norm() * plan.average : 0;
    if (!plan.needs_finite || std::isfinite(norm))
        update({plan.step, plan.lr, plan.average * clip_factor(norm, plan.max_grad_norm)});
    model_.device().wait(down_lane_->latest());  // the gradients' memory is free again
    return plan.returns_norm ? norm : 0;
}

}  // namespace autolaunch::fsdp
