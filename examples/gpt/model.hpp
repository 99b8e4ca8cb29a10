#pragma once
#include "block.hpp"
#include "math.hpp"
#include "parameters.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace gpt {

/// A byte-level GPT: learned positions, pre-norm blocks, a final norm and an output head of its own
/// or tied to the token table. Holds activations only; the parameters come from a ParameterSource,
/// unit by unit, and all arithmetic is the Math's, on whatever device it works. Passes without
/// gradients keep one block's activations instead of all.
///
/// Owner: the trainer. Threads: one. T is float, double for checking gradients, or bfloat16 on
/// GPUs.
template <class T>
class Model {
public:
    /// `math` must outlive the model.
    Model(const ModelConfig& config, Math<T>& math);

    const ModelConfig& config() const noexcept { return config_; }

    /// Logits [rows][vocabulary] for tokens[rows], in the device's memory; valid until the next
    /// call. Throws std::invalid_argument when a sequence is longer than the context.
    std::span<const T> forward(ParameterSource<T>& parameters, const BatchShape& shape,
                               std::span<const std::uint8_t> tokens);
    /// Logits [vocabulary] of what follows the tokens, one sequence, in the device's memory.
    std::span<const T> forward_last(ParameterSource<T>& parameters,
                                    std::span<const std::uint8_t> tokens);
    /// Sum of the cross-entropy over all rows, in nats.
    double loss(ParameterSource<T>& parameters, const BatchShape& shape,
                std::span<const std::uint8_t> tokens, std::span<const std::uint8_t> targets);
    /// The same, and adds `scale` times its gradient to the parameters' gradients. Units are used
    /// in forward order, then in backward order, the head once.
    double loss_and_gradients(ParameterSource<T>& parameters, const BatchShape& shape,
                              std::span<const std::uint8_t> tokens,
                              std::span<const std::uint8_t> targets, Statistic<T> scale);

private:
    enum class Keep { all, one };  ///< blocks' activations

    void run_trunk(ParameterSource<T>& parameters, const BatchShape& shape,
                   std::span<const std::uint8_t> tokens, Keep keep);
    std::span<T> run_head(const Tensors<const T>& parameters, std::int64_t first_row,
                          std::int64_t rows);
    void run_head_backward(const Tensors<const T>& parameters, const Tensors<T>& gradients,
                           std::int64_t rows);
    std::size_t head_unit() const {
        return config_.tied_head ? kEmbeddingUnit : blocks_.size() + 1;
    }
    void on_device(std::span<const std::uint8_t> bytes, DeviceArray<std::uint8_t>& array);

    static constexpr std::size_t kEmbeddingUnit = 0;

    ModelConfig config_;
    Math<T>* math_;
    std::vector<Block<T>> blocks_;
    BlockScratch<T> scratch_;
    const Block<T>* last_block_ = nullptr;  ///< whose output the head reads
    DeviceArray<std::uint8_t> tokens_, targets_;
    DeviceArray<T> x_, sum_, dx_, normed_, dnormed_;  ///< [rows][width]
    DeviceArray<Statistic<T>> mean_, inverse_;        ///< [rows]
    DeviceArray<T> logits_;                           ///< [rows][vocabulary]
};

}  // namespace gpt
