#include "sharded_parameters.hpp"

#include <algorithm>

namespace gpt {

namespace fsdp = autolaunch::fsdp;

ShardedParameters::ShardedParameters(fsdp::ShardedModel& model, const std::vector<UnitShape>& shapes)
    : model_(&model), shapes_(shapes) {
    for (const auto& shape : shapes_) {
        std::vector<fsdp::ParameterSpec> specs;
        for (const auto& tensor : shape.tensors) specs.push_back({tensor.name, tensor.extents});
        model.add_unit(shape.name, std::move(specs));
    }
    model.finalize();
}

Tensors<const float> ShardedParameters::views(const fsdp::UnshardedParameters& parameters, std::size_t unit) const {
    Tensors<const float> tensors;
    for (const auto& tensor : shapes_[unit].tensors) tensors.emplace_back(parameters[tensor.name].as<float>());
    return tensors;
}

void ShardedParameters::forward(std::size_t unit, const Forward& use) {
    const auto parameters = model_->units()[unit]->unshard();
    use(views(parameters, unit));
}

void ShardedParameters::backward(std::size_t unit, const Backward& use) {
    auto& sharded = *model_->units()[unit];
    {
        const auto parameters = sharded.unshard();
        Tensors<float> gradients;
        for (const auto& tensor : shapes_[unit].tensors) gradients.push_back(sharded.grad(tensor.name).as<float>());
        use(views(parameters, unit), gradients);
    }
    sharded.reduce_grads();
}

LocalParameters<float> ShardedParameters::gather_all() {
    LocalParameters<float> local(shapes_);
    const auto evaluation = model_->evaluation();
    for (std::size_t unit = 0; unit < shapes_.size(); ++unit) {
        forward(unit, [&](const Tensors<const float>& parameters) {
            for (std::size_t tensor = 0; tensor < parameters.size(); ++tensor) {
                std::copy(parameters[tensor].begin(), parameters[tensor].end(), local.values(unit, tensor).begin());
            }
        });
    }
    return local;
}

}  // namespace gpt
