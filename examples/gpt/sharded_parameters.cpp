#include "sharded_parameters.hpp"

#include <algorithm>

namespace gpt {

namespace fsdp = autolaunch::fsdp;

void add_units(fsdp::ShardedModel& model, const std::vector<UnitShape>& shapes) {
    for (const auto& shape : shapes) {
        std::vector<fsdp::ParameterSpec> specs;
        for (const auto& tensor : shape.tensors)
            specs.push_back({tensor.name, tensor.extents});
        model.add_unit(shape.name, std::move(specs));
    }
    model.finalize();
}

template <class T>
std::span<T> ShardedParameters<T>::scratch(std::vector<DeviceArray<T>>& arrays, std::size_t index,
                                           std::int64_t count, Math<T>& math) {
    while (arrays.size() <= index)
        arrays.emplace_back(math);
    return arrays[index].resize(static_cast<std::size_t>(count));
}

template <class T>
Tensors<const T> ShardedParameters<T>::views(const fsdp::UnshardedParameters& parameters,
                                             std::size_t unit) {
    Tensors<const T> tensors;
    for (std::size_t i = 0; i < shapes_[unit].tensors.size(); ++i) {
        const auto view = parameters[shapes_[unit].tensors[i].name];
        if (view.type == autolaunch::data_type_of<T>) {
            tensors.emplace_back(view.template as<T>());
            continue;
        }
        const auto values = scratch(values_, i, view.count, *math_);
        math_->convert(view.bytes, view.type, values);
        tensors.emplace_back(values);
    }
    return tensors;
}

template <class T>
Tensors<T> ShardedParameters<T>::gradients_of(fsdp::Unit& unit, std::size_t index) {
    Tensors<T> tensors;
    for (std::size_t i = 0; i < shapes_[index].tensors.size(); ++i) {
        const auto view = unit.grad(shapes_[index].tensors[i].name);
        if (view.type == autolaunch::data_type_of<T>) {
            tensors.emplace_back(view.template as<T>());
            continue;
        }
        tensors.emplace_back(scratch(gradients_, i, view.count, *math_));
        math_->clear(tensors.back());
    }
    return tensors;
}

template <class T>
void ShardedParameters<T>::add_gradients(fsdp::Unit& unit, std::size_t index) {
    for (std::size_t i = 0; i < shapes_[index].tensors.size(); ++i) {
        const auto view = unit.grad(shapes_[index].tensors[i].name);
        if (view.type == autolaunch::data_type_of<T>)
            return;  // backward has added to it
        math_->add_converted(gradients_[i], view.bytes, view.type);
    }
}

template <class T>
void ShardedParameters<T>::forward(std::size_t unit, const Forward& use) {
    const auto parameters = model_->units()[unit]->unshard(math_->stream());
    use(views(parameters, unit));
}

template <class T>
void ShardedParameters<T>::backward_part(std::size_t unit, const Backward& use) {
    auto& sharded = *model_->units()[unit];
    const auto parameters = sharded.unshard(math_->stream());
    use(views(parameters, unit), gradients_of(sharded, unit));
    add_gradients(sharded, unit);
}

template <class T>
void ShardedParameters<T>::backward(std::size_t unit, const Backward& use) {
    backward_part(unit, use);
    model_->units()[unit]->reduce_grads(math_->stream());
}

template <class T>
std::size_t ShardedParameters<T>::planned_bytes() const {
    const auto& precision = model_->options().precision;
    const int converted = (precision.param == autolaunch::data_type_of<T> ? 0 : 1) +
                          (precision.reduce == autolaunch::data_type_of<T> ? 0 : 1);
    std::vector<std::int64_t> largest;  // by place in a unit
    for (const UnitShape& shape : shapes_) {
        largest.resize(std::max(largest.size(), shape.tensors.size()));
        for (std::size_t i = 0; i < shape.tensors.size(); ++i)
            largest[i] = std::max(largest[i], shape.tensors[i].element_count());
    }
    std::size_t elements = 0;
    for (const std::int64_t count : largest)
        elements += static_cast<std::size_t>(count);
    return static_cast<std::size_t>(converted) * elements * sizeof(T);
}

template class ShardedParameters<float>;
template class ShardedParameters<autolaunch::bfloat16>;

}  // namespace gpt
