#include "block.hpp"

#include <algorithm>

namespace gpt {
namespace {

// Positions in unit_shapes()' blocks.
enum : std::size_t {
    kNorm1Weight,
    kNorm1Bias,
    kQkvWeight,
    kQkvBias,
    kAttentionOutWeight,
    kAttentionOutBias,
    kNorm2Weight,
    kNorm2Bias,
    kMlpWeight,
    kMlpBias,
    kMlpOutWeight,
    kMlpOutBias,
};

}  // namespace

template <class T>
void Block<T>::reserve(const BatchShape& shape) {
    shape_ = shape;
    const auto rows = static_cast<std::size_t>(shape.rows());
    const auto width = static_cast<std::size_t>(config_.width);
    for (auto* vector : {&input_, &normed1_, &attended_, &middle_, &normed2_, &branch_, &dbranch_}) {
        vector->resize(rows * width);
    }
    for (auto* vector : {&qkv_, &dqkv_}) vector->resize(rows * 3 * width);
    for (auto* vector : {&hidden_, &activated_, &dhidden_}) vector->resize(rows * 4 * width);
    for (auto* vector : {&mean1_, &inverse1_, &mean2_, &inverse2_}) vector->resize(rows);
    weights_.resize(rows * static_cast<std::size_t>(config_.heads * shape.length));
}

template <class T>
void Block<T>::forward(const Tensors<const T>& p, const BatchShape& shape, std::span<T> x) {
    reserve(shape);
    const std::int64_t rows = shape.rows();
    std::copy(x.begin(), x.end(), input_.begin());
    layer_norm<T>(*pool_, rows, input_, p[kNorm1Weight], p[kNorm1Bias], normed1_, mean1_, inverse1_);
    linear<T>(*pool_, rows, normed1_, p[kQkvWeight], p[kQkvBias], qkv_);
    attention<T>(*pool_, shape, config_.heads, qkv_, weights_, attended_);
    linear<T>(*pool_, rows, attended_, p[kAttentionOutWeight], p[kAttentionOutBias], branch_);
    add<T>(*pool_, branch_, x);
    std::copy(x.begin(), x.end(), middle_.begin());
    layer_norm<T>(*pool_, rows, middle_, p[kNorm2Weight], p[kNorm2Bias], normed2_, mean2_, inverse2_);
    linear<T>(*pool_, rows, normed2_, p[kMlpWeight], p[kMlpBias], hidden_);
    gelu<T>(*pool_, hidden_, activated_);
    linear<T>(*pool_, rows, activated_, p[kMlpOutWeight], p[kMlpOutBias], branch_);
    add<T>(*pool_, branch_, x);
}

template <class T>
void Block<T>::backward(const Tensors<const T>& p, const Tensors<T>& g, std::span<T> dx) {
    const std::int64_t rows = shape_.rows();
    linear_backward<T>(*pool_, rows, activated_, p[kMlpOutWeight], dx, dhidden_, g[kMlpOutWeight], g[kMlpOutBias]);
    gelu_backward<T>(*pool_, hidden_, dhidden_, dhidden_);
    linear_backward<T>(*pool_, rows, normed2_, p[kMlpWeight], dhidden_, dbranch_, g[kMlpWeight], g[kMlpBias]);
    layer_norm_backward<T>(*pool_, rows, middle_, p[kNorm2Weight], mean2_, inverse2_, dbranch_, dx, g[kNorm2Weight],
                           g[kNorm2Bias]);
    linear_backward<T>(*pool_, rows, attended_, p[kAttentionOutWeight], dx, dbranch_, g[kAttentionOutWeight],
                       g[kAttentionOutBias]);
    attention_backward<T>(*pool_, shape_, config_.heads, qkv_, weights_, dbranch_, dqkv_);
    linear_backward<T>(*pool_, rows, normed1_, p[kQkvWeight], dqkv_, dbranch_, g[kQkvWeight], g[kQkvBias]);
    layer_norm_backward<T>(*pool_, rows, input_, p[kNorm1Weight], mean1_, inverse1_, dbranch_, dx, g[kNorm1Weight],
                           g[kNorm1Bias]);
}

template class Block<float>;
template class Block<double>;

}  // namespace gpt
