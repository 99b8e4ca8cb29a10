#pragma once
#include "fsdp/optimizer/update_passes.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace autolaunch::fsdp {

/// The CPU's optimizer for a model on a GPU, whose masters and state are in the CPU's memory.
/// Bucket by bucket, in the order of their gradients:
///
///     down     | g 0 | g 1 | g 2 |     |     |     |         gradient shards, GPU to CPU
///     CPU      |     | n 0 | n 1 | n 2 | u 0 | u 1 | u 2     norm, then update
///     up       |     |     |     |     |     | p 0 | p 1 | p 2    parameters, CPU to GPU
///
/// Without a norm the updates follow the gradients. The copies are on lanes of their own.
class OffloadedUpdatePasses final : public UpdatePasses {
public:
    OffloadedUpdatePasses(OptimizedModel& model, std::unique_ptr<Algorithm> algorithm,
                          const UpdateOptions& options);

    double run(const StepPlan& plan) override;
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
    struct Part {
        Bucket* bucket = nullptr;
        ShardRange shards;  // of the bucket's members
        Fence down, up;
    };

    void fetch();
    double gradient_norm();
    void update(const StepNumbers& numbers);

    OptimizedModel& model_;
    ShardUpdates updates_;
    std::vector<Part> parts_;  // last bucket first, as backward reduces them
    std::unique_ptr<Lane> down_lane_, up_lane_;
};

}  // namespace autolaunch::fsdp
