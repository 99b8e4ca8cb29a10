#pragma once
#include "math.hpp"
#include "parameters.hpp"

#include <cstdint>
#include <span>

namespace gpt {

/// What blocks use one after the other and do not keep.
template <class T>
struct BlockScratch {
    explicit BlockScratch(DeviceMemory& memory)
        : branch(memory), dbranch(memory), dqkv(memory), dhidden(memory) {}
    DeviceArray<T> branch, dbranch;  ///< [rows][width]
    DeviceArray<T> dqkv;             ///< [rows][3 * width]
    DeviceArray<T> dhidden;          ///< [rows][4 * width]
};

/// One pre-norm transformer block: x += attention(norm1(x)); x += mlp(norm2(x)). Keeps what
/// backward needs, but for its input.
///
/// A sum travels as its two parts, so that adding them and the norm that follows are one pass over
/// memory. Owner: the model. forward() must come before backward(), with the same shape.
template <class T>
class Block {
public:
    Block(const ModelConfig& config, Math<T>& math);

    /// The input is x + branch[rows][width], which is put into `sum`, without branch where it is
    /// empty; x or sum must live until backward(). The output is middle() + scratch.branch. Branch
    /// may be scratch's.
    void forward(const Tensors<const T>& parameters, const BatchShape& shape, std::span<const T> x,
                 std::span<const T> branch, DeviceArray<T>& sum, BlockScratch<T>& scratch);
    std::span<const T> middle() const { return middle_; }
    /// dx, the gradient of the output, is replaced by that of the input. Adds to `gradients`.
    void backward(const Tensors<const T>& parameters, const Tensors<T>& gradients,
                  BlockScratch<T>& scratch, std::span<T> dx);

    /// Bytes of what it keeps of a batch.
    static std::size_t planned_bytes(const ModelConfig& config, const Math<T>& math,
                                     const BatchShape& shape);

private:
    void reserve(const BatchShape& shape, BlockScratch<T>& scratch);

    ModelConfig config_;
    Math<T>* math_;
    BatchShape shape_;
    std::span<const T> input_;  ///< x, or the sum
    // Named after what they hold; [rows][width] unless said otherwise.
    DeviceArray<T> normed1_, qkv_, attended_, middle_, normed2_;
    DeviceArray<T> hidden_, activated_;  ///< [rows][4 * width]
    DeviceArray<Statistic<T>> attention_state_;
    DeviceArray<Statistic<T>> mean1_, inverse1_, mean2_, inverse2_;  ///< [rows]
};

}  // namespace gpt
