#include "layers.hpp"

#include "matmul.hpp"
#include "vector_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace gpt {
namespace {

/// Adds each row's element to its column's sum, columns shared out over the pool.
template <class T>
void add_column_sums(ThreadPool& pool, std::int64_t rows, std::span<const T> x, std::span<T> sums) {
    const auto columns = static_cast<std::int64_t>(sums.size());
    pool.parallel_for(columns, 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = 0; row < rows; ++row) {
            const T* in = x.data() + row * columns;
            for (std::int64_t j = begin; j < end; ++j)
                sums[static_cast<std::size_t>(j)] += in[j];
        }
    });
}

}  // namespace

template <class T>
void linear(ThreadPool& pool, std::int64_t rows, std::span<const T> x, std::span<const T> weight,
            std::span<const T> bias, std::span<T> y) {
    const std::int64_t inputs = extent(x.size(), rows);
    const std::int64_t outputs = extent(y.size(), rows);
    multiply<T>(pool, {x.data(), rows, inputs}, {weight.data(), inputs, outputs}, bias,
                {y.data(), rows, outputs});
}

template <class T>
void linear_backward(ThreadPool& pool, std::int64_t rows, std::span<const T> x,
                     std::span<const T> weight, std::span<const T> dy, std::span<T> dx,
                     std::span<T> dweight, std::span<T> dbias) {
    const std::int64_t inputs = extent(x.size(), rows);
    const std::int64_t outputs = extent(dy.size(), rows);
    const Matrix<const T> x_matrix(x.data(), rows, inputs);
    const Matrix<const T> dy_matrix(dy.data(), rows, outputs);
    const Matrix<const T> weight_matrix(weight.data(), inputs, outputs);
    multiply<T>(pool, dy_matrix, weight_matrix.transposed(), {}, {dx.data(), rows, inputs});
    multiply_add<T>(pool, x_matrix.transposed(), dy_matrix, {dweight.data(), inputs, outputs});
    if (!dbias.empty())
        add_column_sums(pool, rows, dy, dbias);
}

template <class T>
void layer_norm(ThreadPool& pool, std::int64_t rows, std::span<const T> x,
                std::span<const T> weight, std::span<const T> bias, std::span<T> y,
                std::span<T> mean, std::span<T> inverse_deviation) {
    const auto width = static_cast<std::int64_t>(weight.size());
    pool.parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const T* in = x.data() + row * width;
            T* out = y.data() + row * width;
            T sum = 0;
#pragma omp simd reduction(+ : sum)
            for (std::int64_t j = 0; j < width; ++j)
                sum += in[j];
            const T center = sum / static_cast<T>(width);
            T squares = 0;
#pragma omp simd reduction(+ : squares)
            for (std::int64_t j = 0; j < width; ++j)
                squares += (in[j] - center) * (in[j] - center);
            const T scale = T(1) / std::sqrt(squares / static_cast<T>(width) + T(1e-5));
            for (std::int64_t j = 0; j < width; ++j)
                out[j] = (in[j] - center) * scale * weight.data()[j] + bias.data()[j];
            mean[static_cast<std::size_t>(row)] = center;
            inverse_deviation[static_cast<std::size_t>(row)] = scale;
        }
    });
}

template <class T>
void layer_norm_backward(ThreadPool& pool, std::int64_t rows, std::span<const T> x,
                         std::span<const T> weight, std::span<const T> mean,
                         std::span<const T> inverse_deviation, std::span<const T> dy,
                         std::span<T> dx, std::span<T> dweight, std::span<T> dbias) {
    const auto width = static_cast<std::int64_t>(weight.size());
    // With n = (x - mean) * inverse deviation and g = dy * weight:
    // dx = inverse deviation * (g - average(g) - n * average(g n))
    pool.parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const T* in = x.data() + row * width;
            const T* upper = dy.data() + row * width;
            T* lower = dx.data() + row * width;
            const T center = mean[static_cast<std::size_t>(row)];
            const T scale = inverse_deviation[static_cast<std::size_t>(row)];
            T sum = 0;
            T product = 0;
#pragma omp simd reduction(+ : sum, product)
            for (std::int64_t j = 0; j < width; ++j) {
                const T g = upper[j] * weight.data()[j];
                sum += g;
                product += g * (in[j] - center) * scale;
            }
            sum /= static_cast<T>(width);
            product /= static_cast<T>(width);
            for (std::int64_t j = 0; j < width; ++j) {
                lower[j] += scale * (upper[j] * weight.data()[j] - sum -
                                     (in[j] - center) * scale * product);
            }
        }
    });
    pool.parallel_for(width, 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = 0; row < rows; ++row) {
            const T* in = x.data() + row * width;
            const T* upper = dy.data() + row * width;
            const T center = mean[static_cast<std::size_t>(row)];
            const T scale = inverse_deviation[static_cast<std::size_t>(row)];
            for (std::int64_t j = begin; j < end; ++j)
                dweight.data()[j] += upper[j] * (in[j] - center) * scale;
        }
    });
    add_column_sums(pool, rows, dy, dbias);
}

template <class T>
void gelu(ThreadPool& pool, std::span<const T> x, std::span<T> y) {
    pool.parallel_for(static_cast<std::int64_t>(x.size()), 64,
                      [&](std::int64_t begin, std::int64_t end) {
                          vector_kernels<T>().gelu(end - begin, x.data() + begin, y.data() + begin);
                      });
}

template <class T>
void gelu_backward(ThreadPool& pool, std::span<const T> x, std::span<const T> dy, std::span<T> dx) {
    pool.parallel_for(static_cast<std::int64_t>(x.size()), 64,
                      [&](std::int64_t begin, std::int64_t end) {
                          vector_kernels<T>().gelu_backward(end - begin, x.data() + begin,
                                                            dy.data() + begin, dx.data() + begin);
                      });
}

namespace {

/// Positions see none after them, so scores are made for so many at once against those up to their
/// last: little more than the half that is needed. A multiple of every kernel's tile_rows.
constexpr std::int64_t kPositionsAtOnce = 84;

/// Where one head of one sequence lies in qkv, in y and in the softmax weights.
template <class T>
struct Head {
    Matrix<T> queries, keys, values;
};

template <class T>
Head<T> head_of(T* qkv, const BatchShape& shape, std::int64_t heads, std::int64_t width,
                std::int64_t index) {
    const std::int64_t sequence = index / heads;
    const std::int64_t head_width = width / heads;
    T* first = qkv + sequence * shape.length * 3 * width + index % heads * head_width;
    const auto part = [&](std::int64_t which) {
        return Matrix<T>(first + which * width, shape.length, head_width, 3 * width);
    };
    return {part(0), part(1), part(2)};
}

template <class T>
Matrix<T> output_of(T* y, const BatchShape& shape, std::int64_t heads, std::int64_t width,
                    std::int64_t index) {
    const std::int64_t head_width = width / heads;
    return {y + index / heads * shape.length * width + index % heads * head_width, shape.length,
            head_width, width};
}

}  // namespace

template <class T>
void attention(ThreadPool& pool, const BatchShape& shape, std::int64_t heads,
               std::span<const T> qkv, std::span<T> weights, std::span<T> y) {
    const std::int64_t width = extent(y.size(), shape.rows());
    const std::int64_t length = shape.length;
    const std::int64_t head_width = width / heads;
    const T scale = T(1) / std::sqrt(static_cast<T>(head_width));
    pool.parallel_for(shape.sequences * heads, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t index = begin; index < end; ++index) {
            const auto head = head_of(qkv.data(), shape, heads, width, index);
            const auto out = output_of(y.data(), shape, heads, width, index);
            const Matrix<T> whole(weights.data() + index * length * length, length, length);
            for (std::int64_t first = 0; first < length; first += kPositionsAtOnce) {
                const std::int64_t count = std::min(kPositionsAtOnce, length - first),
                                   seen = first + count;
                const auto table = whole.block(first, 0, count, seen);
                multiply<T>(head.queries.block(first, 0, count, head_width),
                            head.keys.block(0, 0, seen, head_width).transposed(), table);
                for (std::int64_t i = 0; i < count; ++i) {
                    vector_kernels<T>().softmax(first + i + 1, scale, &table(i, 0));
                    std::fill(&table(i, 0) + first + i + 1, &table(i, 0) + seen,
                              T(0));  // its future
                }
                multiply<T>(table, head.values.block(0, 0, seen, head_width),
                            out.block(first, 0, count, head_width));
            }
        }
    });
}

namespace {

/// Through the softmax: ds = w (dw - sum(w dw)) * scale. Row i sees `seen` + i + 1 positions; w is
/// zero beyond.
template <class T>
void softmax_backward(const Matrix<const T>& weights, std::int64_t seen, T scale,
                      const Matrix<T>& scores) {
    for (std::int64_t i = 0; i < scores.rows; ++i) {
        const T* w = &weights(i, 0);
        T* row = &scores(i, 0);
        T sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t j = 0; j <= seen + i; ++j)
            sum += w[j] * row[j];
        for (std::int64_t j = 0; j < scores.columns; ++j)
            row[j] = w[j] * (row[j] - sum) * scale;
    }
}

}  // namespace

template <class T>
void attention_backward(ThreadPool& pool, const BatchShape& shape, std::int64_t heads,
                        std::span<const T> qkv, std::span<const T> weights, std::span<const T> dy,
                        std::span<T> dqkv) {
    const std::int64_t width = extent(dy.size(), shape.rows());
    const std::int64_t length = shape.length;
    const std::int64_t head_width = width / heads;
    const T scale = T(1) / std::sqrt(static_cast<T>(head_width));
    std::fill(dqkv.begin(), dqkv.end(), T(0));
    pool.parallel_for(shape.sequences * heads, 1, [&](std::int64_t begin, std::int64_t end) {
        std::vector<T> scores(static_cast<std::size_t>(kPositionsAtOnce * length));
        for (std::int64_t index = begin; index < end; ++index) {
            const auto head = head_of(qkv.data(), shape, heads, width, index);
            const auto dhead = head_of(dqkv.data(), shape, heads, width, index);
            const auto upper = output_of(dy.data(), shape, heads, width, index);
            const Matrix<const T> whole(weights.data() + index * length * length, length, length);
            for (std::int64_t first = 0; first < length; first += kPositionsAtOnce) {
                const std::int64_t count = std::min(kPositionsAtOnce, length - first),
                                   seen = first + count;
                const auto rows = [&](const auto& matrix) {
                    return matrix.block(first, 0, count, head_width);
                };
                const auto before = [&](const auto& matrix) {
                    return matrix.block(0, 0, seen, head_width);
                };
                const auto table = whole.block(first, 0, count, seen);
                const Matrix<T> dscores(scores.data(), count, seen);
                multiply_add<T>(table.transposed(), rows(upper), before(dhead.values));
                multiply<T>(rows(upper), before(head.values).transposed(), dscores);
                softmax_backward<T>(table, first, scale, dscores);
                multiply<T>(dscores, before(head.keys), rows(dhead.queries));
                multiply_add<T>(Matrix<const T>(dscores).transposed(), rows(head.queries),
                                before(dhead.keys));
            }
        }
    });
}

template <class T>
void embedding(ThreadPool& pool, const BatchShape& shape, std::span<const std::uint8_t> tokens,
               std::span<const T> token_table, std::span<const T> position_table, std::span<T> x) {
    const std::int64_t width = extent(x.size(), shape.rows());
    pool.parallel_for(shape.rows(), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const T* token = token_table.data() + tokens[static_cast<std::size_t>(row)] * width;
            const T* position = position_table.data() + row % shape.length * width;
            for (std::int64_t j = 0; j < width; ++j)
                x.data()[row * width + j] = token[j] + position[j];
        }
    });
}

template <class T>
void embedding_backward(ThreadPool& pool, const BatchShape& shape,
                        std::span<const std::uint8_t> tokens, std::span<const T> dx,
                        std::span<T> dtoken_table, std::span<T> dposition_table) {
    const std::int64_t width = extent(dx.size(), shape.rows());
    // By columns, since rows that share a token add to the same place.
    pool.parallel_for(width, 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = 0; row < shape.rows(); ++row) {
            T* token = dtoken_table.data() + tokens[static_cast<std::size_t>(row)] * width;
            T* position = dposition_table.data() + row % shape.length * width;
            for (std::int64_t j = begin; j < end; ++j) {
                token[j] += dx.data()[row * width + j];
                position[j] += dx.data()[row * width + j];
            }
        }
    });
}

template <class T>
double cross_entropy(ThreadPool& pool, std::int64_t rows, std::span<const std::uint8_t> targets,
                     T scale, std::span<T> logits) {
    const std::int64_t classes = extent(logits.size(), rows);
    std::vector<double> losses(static_cast<std::size_t>(rows));
    pool.parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            T* line = logits.data() + row * classes;
            const auto target = targets[static_cast<std::size_t>(row)];
            const T wanted = line[target];
            losses[static_cast<std::size_t>(row)] =
                vector_kernels<T>().softmax(classes, T(1), line) - wanted;
            line[target] -= T(1);
            for (std::int64_t j = 0; j < classes; ++j)
                line[j] *= scale;
        }
    });
    double sum = 0;
    for (const double loss : losses)
        sum += loss;
    return sum;
}

template <class T>
void add(ThreadPool& pool, std::span<const T> y, std::span<T> x) {
    pool.parallel_for(static_cast<std::int64_t>(x.size()), 64,
                      [&](std::int64_t begin, std::int64_t end) {
                          for (std::int64_t i = begin; i < end; ++i)
                              x.data()[i] += y.data()[i];
                      });
}

#define GPT_INSTANTIATE(T)                                                                       \
    template void linear(ThreadPool&, std::int64_t, std::span<const T>, std::span<const T>,      \
                         std::span<const T>, std::span<T>);                                      \
    template void linear_backward(ThreadPool&, std::int64_t, std::span<const T>,                 \
                                  std::span<const T>, std::span<const T>, std::span<T>,          \
                                  std::span<T>, std::span<T>);                                   \
    template void layer_norm(ThreadPool&, std::int64_t, std::span<const T>, std::span<const T>,  \
                             std::span<const T>, std::span<T>, std::span<T>, std::span<T>);      \
    template void layer_norm_backward(                                                           \
        ThreadPool&, std::int64_t, std::span<const T>, std::span<const T>, std::span<const T>,   \
        std::span<const T>, std::span<const T>, std::span<T>, std::span<T>, std::span<T>);       \
    template void gelu(ThreadPool&, std::span<const T>, std::span<T>);                           \
    template void gelu_backward(ThreadPool&, std::span<const T>, std::span<const T>,             \
                                std::span<T>);                                                   \
    template void attention(ThreadPool&, const BatchShape&, std::int64_t, std::span<const T>,    \
                            std::span<T>, std::span<T>);                                         \
    template void attention_backward(ThreadPool&, const BatchShape&, std::int64_t,               \
                                     std::span<const T>, std::span<const T>, std::span<const T>, \
                                     std::span<T>);                                              \
    template void embedding(ThreadPool&, const BatchShape&, std::span<const std::uint8_t>,       \
                            std::span<const T>, std::span<const T>, std::span<T>);               \
    template void embedding_backward(ThreadPool&, const BatchShape&,                             \
                                     std::span<const std::uint8_t>, std::span<const T>,          \
                                     std::span<T>, std::span<T>);                                \
    template double cross_entropy(ThreadPool&, std::int64_t, std::span<const std::uint8_t>, T,   \
                                  std::span<T>);                                                 \
    template void add(ThreadPool&, std::span<const T>, std::span<T>);
GPT_INSTANTIATE(float)
GPT_INSTANTIATE(double)
#undef GPT_INSTANTIATE

}  // namespace gpt
