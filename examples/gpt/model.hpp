#pragma once
#include "block.hpp"
#include "math.hpp"
#include "parameters.hpp"

#include <autolaunch/fsdp/activation_checkpoints.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace gpt {

/// A byte-level GPT: learned positions, pre-norm blocks, a final norm and an output head of its own
/// or tied to the token table. Holds activations only; the parameters come from a ParameterSource,
/// unit by unit, and all arithmetic is the Math's, on whatever device it works. Passes without
/// gradients keep one block's activations instead of all; with `recompute` training keeps those of
/// so many blocks, and the inputs of each so many.
///
/// Owner: the trainer. Threads: one. T is float, double for checking gradients, or bfloat16 on
/// GPUs.
template <class T>
class Model {
public:
    /// `math` must outlive the model. `recompute`: ActivationCheckpoints' `every`.
    Model(const ModelConfig& config, Math<T>& math, int recompute = 0);

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
    /// Bytes of all this in training with such batches.
    std::size_t planned_bytes(const BatchShape& shape) const;

private:
    enum class Keep { all, one };  ///< blocks' activations

    void run_trunk(ParameterSource<T>& parameters, const BatchShape& shape,
                   std::span<const std::uint8_t> tokens, Keep keep);
    void run_block(ParameterSource<T>& parameters, const BatchShape& shape, int layer,
                   Block<T>& block, DeviceArray<T>& input);
    void restore_block(ParameterSource<T>& parameters, const BatchShape& shape, int layer);
    std::span<T> run_head(const Tensors<const T>& parameters, std::int64_t first_row,
                          std::int64_t rows);
    void run_head_backward(const Tensors<const T>& parameters, const Tensors<T>& gradients,
                           std::int64_t rows);
    std::size_t head_unit() const {
        return config_.tied_head ? kEmbeddingUnit : unit_of(kept_.layers());
    }
    static std::size_t unit_of(int layer) { return static_cast<std::size_t>(layer) + 1; }
    Block<T>& slot_of(int layer) { return blocks_[static_cast<std::size_t>(kept_.slot(layer))]; }
    void on_device(std::span<const std::uint8_t> bytes, DeviceArray<std::uint8_t>& array);

    static constexpr std::size_t kEmbeddingUnit = 0;

    ModelConfig config_;
    Math<T>* math_;
    std::vector<Block<T>> blocks_;  ///< a slot of kept_'s each
    autolaunch::fsdp::ActivationCheckpoints<DeviceArray<T>> kept_;
    DeviceArray<T> passing_;  ///< a block's input in passes without gradients
    BlockScratch<T> scratch_;
    const Block<T>* last_block_ = nullptr;  ///< whose output what follows reads
    DeviceArray<std::uint8_t> tokens_, targets_;
    DeviceArray<T> x_, sum_, dx_, normed_, dnormed_;  ///< [rows][width]
    DeviceArray<Statistic<T>> mean_, inverse_;        ///< [rows]
    DeviceArray<T> logits_;                           ///< [rows][vocabulary]
};

}  // namespace gpt
