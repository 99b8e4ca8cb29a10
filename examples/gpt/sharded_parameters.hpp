#pragma once
#include "math.hpp"
#include "parameters.hpp"

#include <autolaunch/fsdp/sharded_model.hpp>

#include <vector>

namespace gpt {

/// Adds the model's units to `model` and finalizes it. Collective.
void add_units(autolaunch::fsdp::ShardedModel& model, const std::vector<UnitShape>& shapes);

/// The model's parameters in an autolaunch ShardedModel: a unit is gathered while it is used, and
/// its gradients are summed over the ranks as soon as they are known. Parameters and gradients of
/// T's type are used where they lie; others are converted by the Math, into memory for one unit.
///
/// Threads: one. Blocks: in collectives; every rank must make the same calls.
template <class T>
class ShardedParameters : public ParameterSource<T> {
public:
    using typename ParameterSource<T>::Forward;
    using typename ParameterSource<T>::Backward;

    /// `model` has these units, and outlives this, as `math` does.
    ShardedParameters(autolaunch::fsdp::ShardedModel& model, const std::vector<UnitShape>& shapes,
                      Math<T>& math)
        : model_(&model), shapes_(shapes), math_(&math) {}

    void forward(std::size_t unit, const Forward& use) override;
    void backward(std::size_t unit, const Backward& use) override;
    void backward_part(std::size_t unit, const Backward& use) override;
    /// Bytes of what it converts to and from.
    std::size_t planned_bytes() const;

private:
    Tensors<const T> views(const autolaunch::fsdp::UnshardedParameters& parameters,
                           std::size_t unit);
    Tensors<T> gradients_of(autolaunch::fsdp::Unit& unit, std::size_t index);
    void add_gradients(autolaunch::fsdp::Unit& unit, std::size_t index);
    static std::span<T> scratch(std::vector<DeviceArray<T>>& arrays, std::size_t index,
                                std::int64_t count, Math<T>& math);

    autolaunch::fsdp::ShardedModel* model_;
    std::vector<UnitShape> shapes_;
    Math<T>* math_;
    std::vector<DeviceArray<T>> values_;     ///< of one unit, where parameters are of another type
    std::vector<DeviceArray<T>> gradients_;  ///< the same
};

}  // namespace gpt
