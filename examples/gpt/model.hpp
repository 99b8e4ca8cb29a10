#pragma once
#include "block.hpp"
#include "layers.hpp"
#include "parameters.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace gpt {

/// A byte-level GPT: learned positions, pre-norm blocks, a final norm and an untied output head. Holds activations
/// only; the parameters come from a ParameterSource, unit by unit.
///
/// Owner: the trainer. Threads: one. T is float, or double for checking gradients.
template <class T>
class Model {
public:
    /// `pool` must outlive the model.
    Model(const ModelConfig& config, ThreadPool& pool);

    const ModelConfig& config() const noexcept { return config_; }

    /// Logits [rows][256] for tokens[rows]; valid until the next call. Throws std::invalid_argument when a sequence is
    /// longer than the context.
    std::span<const T> forward(ParameterSource<T>& parameters, const BatchShape& shape,
                               std::span<const std::uint8_t> tokens);
    /// Sum of the cross-entropy over all rows, in nats.
    double loss(ParameterSource<T>& parameters, const BatchShape& shape, std::span<const std::uint8_t> tokens,
                std::span<const std::uint8_t> targets);
    /// The same, and adds `scale` times its gradient to the parameters' gradients. Units are used in forward order,
    /// then in backward order, the head once.
    double loss_and_gradients(ParameterSource<T>& parameters, const BatchShape& shape,
                              std::span<const std::uint8_t> tokens, std::span<const std::uint8_t> targets, T scale);

private:
    void run_trunk(ParameterSource<T>& parameters, const BatchShape& shape, std::span<const std::uint8_t> tokens);
    void run_head(const Tensors<const T>& parameters, const BatchShape& shape);
    void run_head_backward(const Tensors<const T>& parameters, const Tensors<T>& gradients, const BatchShape& shape);
    std::size_t head_unit() const { return blocks_.size() + 1; }

    ModelConfig config_;
    ThreadPool* pool_;
    std::vector<Block<T>> blocks_;
    std::vector<T> x_, dx_, normed_, dnormed_;  ///< [rows][width]
    std::vector<T> mean_, inverse_;             ///< [rows]
    std::vector<T> logits_;                     ///< [rows][256]
};

}  // namespace gpt
