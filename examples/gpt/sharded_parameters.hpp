#pragma once
#include "parameters.hpp"

#include <autolaunch/fsdp/sharded_model.hpp>

namespace gpt {

/// The model's parameters in an autolaunch ShardedModel: a unit is gathered while it is used, and its gradients are
/// summed over the ranks as soon as they are known. What is kept or sent in 16 bits is computed with in 32.
///
/// Threads: one. Blocks: in collectives; every rank must make the same calls.
class ShardedParameters : public ParameterSource<float> {
public:
    /// Adds the units to `model`, which must outlive this, and finalizes it.
    ShardedParameters(autolaunch::fsdp::ShardedModel& model, const std::vector<UnitShape>& shapes);

    void forward(std::size_t unit, const Forward& use) override;
    void backward(std::size_t unit, const Backward& use) override;

    /// All parameters in this rank's memory, for evaluation and sampling. Collective.
    LocalParameters<float> gather_all();

private:
    Tensors<const float> views(const autolaunch::fsdp::UnshardedParameters& parameters, std::size_t unit);
    Tensors<float> gradients_of(autolaunch::fsdp::Unit& unit, std::size_t index);
    void add_gradients(autolaunch::fsdp::Unit& unit, std::size_t index);

    autolaunch::fsdp::ShardedModel* model_;
    std::vector<UnitShape> shapes_;
    std::vector<std::vector<float>> values_;     ///< of one unit, where parameters are of another type
    std::vector<std::vector<float>> gradients_;  ///< the same
};

}  // namespace gpt
