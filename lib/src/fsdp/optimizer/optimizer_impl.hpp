#pragma once
#include "fsdp/optimized_model.hpp"
#include "fsdp/optimizer/update_passes.hpp"

#include <autolaunch/fsdp/optimizer.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace autolaunch::fsdp {

/// The step that all optimizers share: the model's brackets around the passes over the shards.
class Optimizer::Impl {
public:
    /// Throws Error{invalid_argument} for a model that is not finalized, and for options that make
    /// no sense.
    static std::unique_ptr<Impl> make(ShardedModel& model, std::unique_ptr<Algorithm> algorithm,
                                      double lr, const UpdateOptions& options);
    Impl(OptimizedModel& model, std::unique_ptr<Algorithm> algorithm, double lr,
         const UpdateOptions& options);
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;
    ~Impl();

    StepResult step(const StepOptions& options);

    double lr;
    std::int64_t steps = 0;
    OptimizedModel& model;
    std::unique_ptr<UpdatePasses> passes;

private:
    void require_equal_settings();
    void require_valid(const StepOptions& options) const;
    /// Collective. Every rank throws the same Error: of the first rank whose own gradient is not
    /// finite, or else of the lowest rank in whose shard the sum is not.
    [[noreturn]] void refuse_non_finite();
    [[noreturn]] void name_non_finite();

    std::size_t state_bytes_;
    std::shared_ptr<std::size_t> counted_;  // of all the model's optimizers
    std::string name_;
    std::optional<std::uint64_t> settings_;  // their hash, until ranks have compared it
};

}  // namespace autolaunch::fsdp
