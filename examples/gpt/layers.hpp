#pragma once
// The layers of a transformer as pure functions on memory: forward, and backward by hand. T is
// float or double.
//
// Everything is row-major. `rows` are positions of all sequences, one after another. Backward
// functions add to weight gradients (they may hold earlier micro-batches) and overwrite input
// gradients, unless said otherwise. Results do not depend on the number of threads.
#include "thread_pool.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpt {

/// Extents of a batch of token sequences, all of one length.
struct BatchShape {
    std::int64_t sequences = 0;
    std::int64_t length = 0;
    std::int64_t rows() const { return sequences * length; }
};

/// Of a row, where `size` elements are in `rows` rows.
inline std::int64_t extent(std::size_t size, std::int64_t rows) {
    return static_cast<std::int64_t>(size) / rows;
}

// y[rows][outputs] = x[rows][inputs] weight[inputs][outputs] + bias[outputs]; an empty bias is
// none.
template <class T>
void linear(ThreadPool& pool, std::int64_t rows, std::span<const T> x, std::span<const T> weight,
            std::span<const T> bias, std::span<T> y);
template <class T>
void linear_backward(ThreadPool& pool, std::int64_t rows, std::span<const T> x,
                     std::span<const T> weight, std::span<const T> dy, std::span<T> dx,
                     std::span<T> dweight, std::span<T> dbias);

// y = (x - mean(x)) / sqrt(variance(x) + 1e-5) * weight + bias for each row of `width` (Ba, Kiros &
// Hinton, "Layer Normalization"). Keeps each row's mean and 1/sqrt(…) for backward.
template <class T>
void layer_norm(ThreadPool& pool, std::int64_t rows, std::span<const T> x,
                std::span<const T> weight, std::span<const T> bias, std::span<T> y,
                std::span<T> mean, std::span<T> inverse_deviation);
/// Adds to dx: a residual path has put its gradient there already.
template <class T>
void layer_norm_backward(ThreadPool& pool, std::int64_t rows, std::span<const T> x,
                         std::span<const T> weight, std::span<const T> mean,
                         std::span<const T> inverse_deviation, std::span<const T> dy,
                         std::span<T> dx, std::span<T> dweight, std::span<T> dbias);

// Elementwise, the tanh form (Hendrycks & Gimpel, "Gaussian Error Linear Units").
template <class T>
void gelu(ThreadPool& pool, std::span<const T> x, std::span<T> y);
/// dx may be dy.
template <class T>
void gelu_backward(ThreadPool& pool, std::span<const T> x, std::span<const T> dy, std::span<T> dx);

// Causal multi-head attention. qkv[rows][3 * width] holds queries, keys and values side by side,
// each cut into `heads`; weights[sequences][heads][length][length] keeps the softmax for backward;
// y[rows][width].
template <class T>
void attention(ThreadPool& pool, const BatchShape& shape, std::int64_t heads,
               std::span<const T> qkv, std::span<T> weights, std::span<T> y);
template <class T>
void attention_backward(ThreadPool& pool, const BatchShape& shape, std::int64_t heads,
                        std::span<const T> qkv, std::span<const T> weights, std::span<const T> dy,
                        std::span<T> dqkv);

// x[row] = token_table[tokens[row]] + position_table[position of the row in its sequence].
template <class T>
void embedding(ThreadPool& pool, const BatchShape& shape, std::span<const std::uint8_t> tokens,
               std::span<const T> token_table, std::span<const T> position_table, std::span<T> x);
template <class T>
void embedding_backward(ThreadPool& pool, const BatchShape& shape,
                        std::span<const std::uint8_t> tokens, std::span<const T> dx,
                        std::span<T> dtoken_table, std::span<T> dposition_table);

/// Sum over rows of -log softmax(logits)[target], in nats; turns logits into its gradient times
/// `scale`.
template <class T>
double cross_entropy(ThreadPool& pool, std::int64_t rows, std::span<const std::uint8_t> targets,
                     T scale, std::span<T> logits);

/// x += y
template <class T>
void add(ThreadPool& pool, std::span<const T> y, std::span<T> x);

}  // namespace gpt
