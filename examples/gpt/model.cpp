#include "model.hpp"

#include <stdexcept>
#include <string>

namespace gpt {
namespace {

enum : std::size_t { kTokenTable, kPositionTable };

/// Where the head's tensors are: in a unit of their own, or behind the embedding's, whose token
/// table it shares.
struct HeadTensors {
    std::size_t norm_weight, norm_bias, weight;
};
constexpr HeadTensors head_tensors(bool tied) {
    return tied ? HeadTensors{2, 3, kTokenTable} : HeadTensors{0, 1, 2};
}

const ModelConfig& valid(const ModelConfig& config) {
    if (config.layers < 1 || config.heads < 1 || config.width < 1 || config.context < 1) {
        throw std::invalid_argument("layers, heads, width and context must be positive");
    }
    if (config.width % config.heads != 0) {
        throw std::invalid_argument("width " + std::to_string(config.width) +
                                    " is no multiple of heads " + std::to_string(config.heads));
    }
    if (config.vocabulary < kBytes) {
        throw std::invalid_argument("a vocabulary of " + std::to_string(config.vocabulary) +
                                    " does not hold all bytes");
    }
    return config;
}

}  // namespace

template <class T>
Model<T>::Model(const ModelConfig& config, Math<T>& math, int recompute)
    : config_(valid(config)),
      math_(&math),
      kept_(static_cast<int>(config.layers), recompute, [&] { return DeviceArray<T>(math); }),
      passing_(math),
      scratch_(math),
      tokens_(math),
      targets_(math),
      x_(math),
      sum_(math),
      dx_(math),
      normed_(math),
      dnormed_(math),
      mean_(math),
      inverse_(math),
      logits_(math) {
    for (int slot = 0; slot < kept_.slot_count(); ++slot)
        blocks_.emplace_back(config, math);
}

template <class T>
void Model<T>::on_device(std::span<const std::uint8_t> bytes, DeviceArray<std::uint8_t>& array) {
    math_->upload(bytes.data(), array.resize(bytes.size()).data(), bytes.size());
}

template <class T>
void Model<T>::run_trunk(ParameterSource<T>& parameters, const BatchShape& shape,
                         std::span<const std::uint8_t> tokens, Keep keep) {
    if (shape.length > config_.context) {
        throw std::invalid_argument("a sequence of " + std::to_string(shape.length) +
                                    " tokens is longer than the context of " +
                                    std::to_string(config_.context));
    }
    on_device(tokens, tokens_);
    x_.resize(static_cast<std::size_t>(shape.rows() * config_.width));
    parameters.forward(kEmbeddingUnit, [&](const Tensors<const T>& p) {
        math_->embedding(shape, tokens_, p[kTokenTable], p[kPositionTable], x_);
    });
    last_block_ = nullptr;
    for (int layer = 0; layer < kept_.layers(); ++layer) {
        if (keep == Keep::all) {
            auto& input = kept_.enter(layer);
            run_block(parameters, shape, layer, slot_of(layer), input);
        } else {
            run_block(parameters, shape, layer, blocks_[0], passing_);
        }
    }
}

// After last_block_, or the embedding.
template <class T>
void Model<T>::run_block(ParameterSource<T>& parameters, const BatchShape& shape, int layer,
                         Block<T>& block, DeviceArray<T>& input) {
    parameters.forward(unit_of(layer), [&](const Tensors<const T>& p) {
        if (last_block_) {
            block.forward(p, shape, last_block_->middle(), scratch_.branch, input, scratch_);
        } else {
            block.forward(p, shape, x_, {}, input, scratch_);
        }
    });
    last_block_ = &block;
}

template <class T>
void Model<T>::restore_block(ParameterSource<T>& parameters, const BatchShape& shape, int layer) {
    auto& input = kept_.input(layer);
    if (layer == 0)
        last_block_ = nullptr;
    if (layer == 0 || !kept_.begins_segment(layer))
        return run_block(parameters, shape, layer, slot_of(layer), input);
    parameters.forward(unit_of(layer), [&](const Tensors<const T>& p) {
        slot_of(layer).forward(p, shape, input, {}, input, scratch_);
    });
    last_block_ = &slot_of(layer);
}

template <class T>
std::span<T> Model<T>::run_head(const Tensors<const T>& p, std::int64_t first_row,
                                std::int64_t rows) {
    const auto head = head_tensors(config_.tied_head);
    const auto first = static_cast<std::size_t>(first_row * config_.width);
    const auto count = static_cast<std::size_t>(rows * config_.width);
    sum_.resize(count);
    normed_.resize(count);
    mean_.resize(static_cast<std::size_t>(rows));
    inverse_.resize(static_cast<std::size_t>(rows));
    logits_.resize(static_cast<std::size_t>(rows * config_.vocabulary));
    math_->add_layer_norm(rows, last_block_->middle().subspan(first, count),
                          std::span<const T>(scratch_.branch).subspan(first, count),
                          p[head.norm_weight], p[head.norm_bias], sum_, normed_, mean_, inverse_);
    if (config_.tied_head) {
        math_->tied_linear(rows, normed_, p[head.weight], logits_);
    } else {
        math_->linear(rows, normed_, p[head.weight], {}, logits_);
    }
    return logits_;
}

template <class T>
void Model<T>::run_head_backward(const Tensors<const T>& p, const Tensors<T>& g,
                                 std::int64_t rows) {
    const auto head = head_tensors(config_.tied_head);
    const auto count = static_cast<std::size_t>(rows * config_.width);
    dnormed_.resize(count);
    math_->clear(dx_.resize(count));
    if (config_.tied_head) {
        math_->tied_linear_backward(rows, normed_, p[head.weight], logits_, dnormed_,
                                    g[head.weight]);
    } else {
        math_->linear_backward(rows, normed_, p[head.weight], logits_, dnormed_, g[head.weight],
                               {});
    }
    math_->layer_norm_backward(rows, sum_, p[head.norm_weight], mean_, inverse_, dnormed_, dx_,
                               g[head.norm_weight], g[head.norm_bias]);
}

template <class T>
std::span<const T> Model<T>::forward(ParameterSource<T>& parameters, const BatchShape& shape,
                                     std::span<const std::uint8_t> tokens) {
    run_trunk(parameters, shape, tokens, Keep::one);
    parameters.forward(head_unit(),
                       [&](const Tensors<const T>& p) { run_head(p, 0, shape.rows()); });
    return logits_;
}

template <class T>
std::span<const T> Model<T>::forward_last(ParameterSource<T>& parameters,
                                          std::span<const std::uint8_t> tokens) {
    const BatchShape shape{1, static_cast<std::int64_t>(tokens.size())};
    run_trunk(parameters, shape, tokens, Keep::one);
    parameters.forward(head_unit(),
                       [&](const Tensors<const T>& p) { run_head(p, shape.length - 1, 1); });
    return logits_;
}

template <class T>
double Model<T>::loss(ParameterSource<T>& parameters, const BatchShape& shape,
                      std::span<const std::uint8_t> tokens, std::span<const std::uint8_t> targets) {
    on_device(targets, targets_);
    forward(parameters, shape, tokens);
    math_->cross_entropy(shape.rows(), targets_, 1, logits_);
    return math_->loss();
}

template <class T>
double Model<T>::loss_and_gradients(ParameterSource<T>& parameters, const BatchShape& shape,
                                    std::span<const std::uint8_t> tokens,
                                    std::span<const std::uint8_t> targets, Statistic<T> scale) {
    on_device(targets, targets_);  // now, since a GPU has no work yet that this would wait for
    run_trunk(parameters, shape, tokens, Keep::all);
    const auto head = [&](const Tensors<const T>& p, const Tensors<T>& g) {
        const auto logits = run_head(p, 0, shape.rows());
        math_->cross_entropy(shape.rows(), targets_, scale, logits);
        run_head_backward(p, g, shape.rows());
    };
    if (config_.tied_head) {
        parameters.backward_part(head_unit(), head);
    } else {
        parameters.backward(head_unit(), head);
    }
    for (int layer = kept_.layers(); layer-- > 0;) {
        kept_.restore(layer, [&](int each) { restore_block(parameters, shape, each); });
        parameters.backward(unit_of(layer), [&](const Tensors<const T>& p, const Tensors<T>& g) {
            slot_of(layer).backward(p, g, scratch_, dx_);
        });
    }
    parameters.backward(kEmbeddingUnit, [&](const Tensors<const T>&, const Tensors<T>& g) {
        math_->embedding_backward(shape, tokens_, dx_, g[kTokenTable], g[kPositionTable]);
    });
    return math_->loss();
}

template <class T>
std::size_t Model<T>::planned_bytes(const BatchShape& shape) const {
    const auto rows = static_cast<std::size_t>(shape.rows());
    const auto width = static_cast<std::size_t>(config_.width);
    // The first layer's input is x_.
    const auto inputs = static_cast<std::size_t>(kept_.input_count() - 1);
    constexpr std::size_t kScratch = 1 + 1 + 3 + 4, kOwn = 5;
    return blocks_.size() * Block<T>::planned_bytes(config_, *math_, shape) +
           rows * width * (inputs + kScratch + kOwn) * sizeof(T) +
           rows * static_cast<std::size_t>(config_.vocabulary) * sizeof(T) +
           2 * rows * sizeof(Statistic<T>) + 2 * rows;
}

template class Model<float>;
template class Model<double>;
template class Model<autolaunch::bfloat16>;

}  // namespace gpt
