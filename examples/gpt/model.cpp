#include "model.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace gpt {
namespace {

enum : std::size_t { kTokenTable, kPositionTable };
enum : std::size_t { kNormWeight, kNormBias, kHeadWeight };
constexpr std::size_t kEmbeddingUnit = 0;

}  // namespace

template <class T>
Model<T>::Model(const ModelConfig& config, ThreadPool& pool) : config_(config), pool_(&pool) {
    if (config.layers < 1 || config.heads < 1 || config.width < 1 || config.context < 1) {
        throw std::invalid_argument("layers, heads, width and context must be positive");
    }
    if (config.width % config.heads != 0) {
        throw std::invalid_argument("width " + std::to_string(config.width) + " is no multiple of heads " +
                                    std::to_string(config.heads));
    }
    for (std::int64_t layer = 0; layer < config.layers; ++layer) blocks_.emplace_back(config, pool);
}

template <class T>
void Model<T>::run_trunk(ParameterSource<T>& parameters, const BatchShape& shape,
                         std::span<const std::uint8_t> tokens) {
    if (shape.length > config_.context) {
        throw std::invalid_argument("a sequence of " + std::to_string(shape.length) +
                                    " tokens is longer than the context of " + std::to_string(config_.context));
    }
    x_.resize(static_cast<std::size_t>(shape.rows() * config_.width));
    parameters.forward(kEmbeddingUnit, [&](const Tensors<const T>& p) {
        embedding<T>(*pool_, shape, tokens, p[kTokenTable], p[kPositionTable], x_);
    });
    for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
        parameters.forward(layer + 1, [&](const Tensors<const T>& p) { blocks_[layer].forward(p, shape, x_); });
    }
}

template <class T>
void Model<T>::run_head(const Tensors<const T>& p, const BatchShape& shape) {
    const auto rows = static_cast<std::size_t>(shape.rows());
    normed_.resize(x_.size());
    mean_.resize(rows);
    inverse_.resize(rows);
    logits_.resize(rows * static_cast<std::size_t>(kVocabulary));
    layer_norm<T>(*pool_, shape.rows(), x_, p[kNormWeight], p[kNormBias], normed_, mean_, inverse_);
    linear<T>(*pool_, shape.rows(), normed_, p[kHeadWeight], {}, logits_);
}

template <class T>
void Model<T>::run_head_backward(const Tensors<const T>& p, const Tensors<T>& g, const BatchShape& shape) {
    dnormed_.resize(x_.size());
    dx_.assign(x_.size(), T(0));
    linear_backward<T>(*pool_, shape.rows(), normed_, p[kHeadWeight], logits_, dnormed_, g[kHeadWeight], {});
    layer_norm_backward<T>(*pool_, shape.rows(), x_, p[kNormWeight], mean_, inverse_, dnormed_, dx_, g[kNormWeight],
                           g[kNormBias]);
}

template <class T>
std::span<const T> Model<T>::forward(ParameterSource<T>& parameters, const BatchShape& shape,
                                     std::span<const std::uint8_t> tokens) {
    run_trunk(parameters, shape, tokens);
    parameters.forward(head_unit(), [&](const Tensors<const T>& p) { run_head(p, shape); });
    return logits_;
}

template <class T>
double Model<T>::loss(ParameterSource<T>& parameters, const BatchShape& shape, std::span<const std::uint8_t> tokens,
                      std::span<const std::uint8_t> targets) {
    forward(parameters, shape, tokens);
    return cross_entropy<T>(*pool_, shape.rows(), targets, T(1), logits_);
}

template <class T>
double Model<T>::loss_and_gradients(ParameterSource<T>& parameters, const BatchShape& shape,
                                    std::span<const std::uint8_t> tokens, std::span<const std::uint8_t> targets,
                                    T scale) {
    run_trunk(parameters, shape, tokens);
    double loss = 0;
    parameters.backward(head_unit(), [&](const Tensors<const T>& p, const Tensors<T>& g) {
        run_head(p, shape);
        loss = cross_entropy<T>(*pool_, shape.rows(), targets, scale, logits_);
        run_head_backward(p, g, shape);
    });
    for (std::size_t layer = blocks_.size(); layer-- > 0;) {
        parameters.backward(
            layer + 1, [&](const Tensors<const T>& p, const Tensors<T>& g) { blocks_[layer].backward(p, g, dx_); });
    }
    parameters.backward(kEmbeddingUnit, [&](const Tensors<const T>&, const Tensors<T>& g) {
        embedding_backward<T>(*pool_, shape, tokens, dx_, g[kTokenTable], g[kPositionTable]);
    });
    return loss;
}

template class Model<float>;
template class Model<double>;

}  // namespace gpt
