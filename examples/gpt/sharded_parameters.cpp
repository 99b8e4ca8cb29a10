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

Tensors<const float> ShardedParameters::views(const fsdp::UnshardedParameters& parameters, std::size_t unit) {
    Tensors<const float> tensors;
    values_.resize(std::max(values_.size(), shapes_[unit].tensors.size()));
    for (std::size_t i = 0; i < shapes_[unit].tensors.size(); ++i) {
        const auto view = parameters[shapes_[unit].tensors[i].name];
        if (view.type == autolaunch::f32) {
            tensors.emplace_back(view.as<float>());
            continue;
        }
        const auto narrow = view.as<const autolaunch::bfloat16>();
        values_[i].resize(narrow.size());
        std::transform(narrow.begin(), narrow.end(), values_[i].begin(), [](auto value) { return float(value); });
        tensors.emplace_back(values_[i]);
    }
    return tensors;
}

Tensors<float> ShardedParameters::gradients_of(fsdp::Unit& unit, std::size_t index) {
    Tensors<float> tensors;
    gradients_.resize(std::max(gradients_.size(), shapes_[index].tensors.size()));
    for (std::size_t i = 0; i < shapes_[index].tensors.size(); ++i) {
        const auto view = unit.grad(shapes_[index].tensors[i].name);
        if (view.type == autolaunch::f32) {
            tensors.emplace_back(view.as<float>());
            continue;
        }
        gradients_[i].assign(static_cast<std::size_t>(view.count), 0.0f);
        tensors.emplace_back(gradients_[i]);
    }
    return tensors;
}

void ShardedParameters::add_gradients(fsdp::Unit& unit, std::size_t index) {
    for (std::size_t i = 0; i < shapes_[index].tensors.size(); ++i) {
        const auto view = unit.grad(shapes_[index].tensors[i].name);
        if (view.type == autolaunch::f32) return;  // backward has added to it
        const auto narrow = view.as<autolaunch::bfloat16>();
        std::transform(narrow.begin(), narrow.end(), gradients_[i].begin(), narrow.begin(),
                       [](auto sum, float value) { return autolaunch::bfloat16(float(sum) + value); });
    }
}

void ShardedParameters::forward(std::size_t unit, const Forward& use) {
    const auto parameters = model_->units()[unit]->unshard();
    use(views(parameters, unit));
}

void ShardedParameters::backward(std::size_t unit, const Backward& use) {
    auto& sharded = *model_->units()[unit];
    {
        const auto parameters = sharded.unshard();
        use(views(parameters, unit), gradients_of(sharded, unit));
    }
    add_gradients(sharded, unit);
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
