#pragma once
#include "layers.hpp"
#include "parameters.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace gpt {

/// One pre-norm transformer block: x += attention(norm1(x)); x += mlp(norm2(x)). Keeps what backward needs.
///
/// Owner: the model. forward() must come before backward(), with the same shape.
template <class T>
class Block {
public:
    Block(const ModelConfig& config, ThreadPool& pool) : config_(config), pool_(&pool) {}

    /// x[rows][width] is replaced by the block's output.
    void forward(const Tensors<const T>& parameters, const BatchShape& shape, std::span<T> x);
    /// dx, the gradient of the output, is replaced by that of the input. Adds to `gradients`.
    void backward(const Tensors<const T>& parameters, const Tensors<T>& gradients, std::span<T> dx);

private:
    void reserve(const BatchShape& shape);

    ModelConfig config_;
    ThreadPool* pool_;
    BatchShape shape_;
    // Named after what they hold; [rows][width] unless said otherwise.
    std::vector<T> input_, normed1_, qkv_, attended_, middle_, normed2_;
    std::vector<T> hidden_, activated_;                   ///< [rows][4 * width]
    std::vector<T> weights_;                              ///< [sequences][heads][length][length]
    std::vector<T> mean1_, inverse1_, mean2_, inverse2_;  ///< [rows]
    std::vector<T> branch_, dbranch_, dqkv_, dhidden_;    ///< scratch
};

}  // namespace gpt
