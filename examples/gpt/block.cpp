#include "block.hpp"

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
Block<T>::Block(const ModelConfig& config, Math<T>& math)
    : config_(config),
      math_(&math),
      normed1_(math),
      qkv_(math),
      attended_(math),
      middle_(math),
      normed2_(math),
      hidden_(math),
      activated_(math),
      attention_state_(math),
      mean1_(math),
      inverse1_(math),
      mean2_(math),
      inverse2_(math) {}

template <class T>
void Block<T>::reserve(const BatchShape& shape, BlockScratch<T>& scratch) {
    shape_ = shape;
    const auto rows = static_cast<std::size_t>(shape.rows());
    const auto width = static_cast<std::size_t>(config_.width);
    for (auto* array : {&normed1_, &attended_, &middle_, &normed2_, &scratch.branch})
        array->resize(rows * width);
    qkv_.resize(rows * 3 * width);
    for (auto* array : {&hidden_, &activated_})
        array->resize(rows * 4 * width);
    for (auto* array : {&mean1_, &inverse1_, &mean2_, &inverse2_})
        array->resize(rows);
    attention_state_.resize(math_->attention_state_count(shape, config_.heads));
}

template <class T>
std::size_t Block<T>::planned_bytes(const ModelConfig& config, const Math<T>& math,
                                    const BatchShape& shape) {
    const auto rows = static_cast<std::size_t>(shape.rows());
    const auto width = static_cast<std::size_t>(config.width);
    constexpr std::size_t kWidths = 4 + 3 + 2 * 4;  // normed, attended, middle; qkv; the MLP's
    return rows * width * kWidths * sizeof(T) +
           (4 * rows + math.attention_state_count(shape, config.heads)) * sizeof(Statistic<T>);
}

template <class T>
void Block<T>::forward(const Tensors<const T>& p, const BatchShape& shape, std::span<const T> x,
                       std::span<const T> branch, DeviceArray<T>& sum, BlockScratch<T>& scratch) {
    const std::int64_t rows = shape.rows();
    if (!branch.empty())
        sum.resize(x.size());
    reserve(shape, scratch);
    input_ = branch.empty() ? x : std::span<const T>(sum);
    math_->add_layer_norm(rows, x, branch, p[kNorm1Weight], p[kNorm1Bias], sum, normed1_, mean1_,
                          inverse1_);
    math_->linear(rows, normed1_, p[kQkvWeight], p[kQkvBias], qkv_);
    math_->attention(shape, config_.heads, qkv_, attention_state_, attended_);
    math_->linear(rows, attended_, p[kAttentionOutWeight], p[kAttentionOutBias], scratch.branch);
    math_->add_layer_norm(rows, input_, scratch.branch, p[kNorm2Weight], p[kNorm2Bias], middle_,
                          normed2_, mean2_, inverse2_);
    math_->linear(rows, normed2_, p[kMlpWeight], p[kMlpBias], hidden_);
    math_->gelu(hidden_, activated_);
    math_->linear(rows, activated_, p[kMlpOutWeight], p[kMlpOutBias], scratch.branch);
}

template <class T>
void Block<T>::backward(const Tensors<const T>& p, const Tensors<T>& g, BlockScratch<T>& scratch,
                        std::span<T> dx) {
    const std::int64_t rows = shape_.rows();
    const std::span<T> dbranch = scratch.dbranch.resize(dx.size());
    const std::span<T> dqkv = scratch.dqkv.resize(3 * dx.size());
    const std::span<T> dhidden = scratch.dhidden.resize(4 * dx.size());
    math_->linear_backward(rows, activated_, p[kMlpOutWeight], dx, dhidden, g[kMlpOutWeight],
                           g[kMlpOutBias]);
    math_->gelu_backward(hidden_, dhidden, dhidden);
    math_->linear_backward(rows, normed2_, p[kMlpWeight], dhidden, dbranch, g[kMlpWeight],
                           g[kMlpBias]);
    math_->layer_norm_backward(rows, middle_, p[kNorm2Weight], mean2_, inverse2_, dbranch, dx,
                               g[kNorm2Weight], g[kNorm2Bias]);
    math_->linear_backward(rows, attended_, p[kAttentionOutWeight], dx, dbranch,
                           g[kAttentionOutWeight], g[kAttentionOutBias]);
    math_->attention_backward(shape_, config_.heads, qkv_, attended_, attention_state_, dbranch,
                              dqkv);
    math_->linear_backward(rows, normed1_, p[kQkvWeight], dqkv, dbranch, g[kQkvWeight],
                           g[kQkvBias]);
    math_->layer_norm_backward(rows, input_, p[kNorm1Weight], mean1_, inverse1_, dbranch, dx,
                               g[kNorm1Weight], g[kNorm1Bias]);
}

template class Block<float>;
template class Block<double>;
template class Block<autolaunch::bfloat16>;

}  // namespace gpt
