#include "parameters.hpp"

#include "random.hpp"

#include <algorithm>
#include <cmath>

namespace gpt {
namespace {

bool ends_with(const std::string& name, const std::string& end) {
    return name.size() >= end.size() &&
           name.compare(name.size() - end.size(), end.size(), end) == 0;
}

UnitShape block_shape(std::int64_t layer, std::int64_t width) {
    return {"h." + std::to_string(layer),
            {{"norm1.weight", {width}},
             {"norm1.bias", {width}},
             {"attention.weight", {width, 3 * width}},
             {"attention.bias", {3 * width}},
             {"attention.out.weight", {width, width}},
             {"attention.out.bias", {width}},
             {"norm2.weight", {width}},
             {"norm2.bias", {width}},
             {"mlp.weight", {width, 4 * width}},
             {"mlp.bias", {4 * width}},
             {"mlp.out.weight", {4 * width, width}},
             {"mlp.out.bias", {width}}}};
}

}  // namespace

std::vector<UnitShape> unit_shapes(const ModelConfig& config) {
    std::vector<UnitShape> units;
    units.push_back({"embedding",
                     {{"token.weight", {config.vocabulary, config.width}},
                      {"position.weight", {config.context, config.width}}}});
    for (std::int64_t layer = 0; layer < config.layers; ++layer)
        units.push_back(block_shape(layer, config.width));
    const std::vector<TensorShape> norm = {{"norm.weight", {config.width}},
                                           {"norm.bias", {config.width}}};
    if (config.tied_head) {
        units.front().tensors.insert(units.front().tensors.end(), norm.begin(), norm.end());
    } else {
        units.push_back(
            {"head", {norm[0], norm[1], {"weight", {config.width, config.vocabulary}}}});
    }
    return units;
}

void initial_values(const ModelConfig& config, std::uint64_t seed, const std::string& name,
                    std::int64_t first, std::span<float> values) {
    if (ends_with(name, "bias")) {
        std::fill(values.begin(), values.end(), 0.0f);
        return;
    }
    if (ends_with(name, "norm1.weight") || ends_with(name, "norm2.weight") ||
        ends_with(name, "norm.weight")) {
        std::fill(values.begin(), values.end(), 1.0f);
        return;
    }
    const bool ends_branch = ends_with(name, "out.weight");
    const double deviation =
        0.02 / (ends_branch ? std::sqrt(2.0 * static_cast<double>(config.layers)) : 1.0);
    const std::uint64_t tensor = number_of(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto index = static_cast<std::uint64_t>(first) + i;
        values[i] = static_cast<float>(deviation * normal(random_bits({seed, tensor, index})));
    }
}

}  // namespace gpt
