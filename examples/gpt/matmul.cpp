#include "matmul.hpp"

#include "vector_kernels.hpp"

#include <algorithm>
#include <vector>

namespace gpt {
namespace {

// The blocking of Goto & van de Geijn, "Anatomy of High-Performance Matrix Multiplication": a panel of b stays in the
// L2 cache and a strip of a in L1 while tiles of c are summed in registers.
constexpr std::int64_t kDepthBlock = 256;
constexpr std::int64_t kColumnBlock = 512;
constexpr std::int64_t kRowBlock = 12 * 14;  // a multiple of every kernel's tile_rows

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

/// Copies a block of `source` so that a strip of `width` rows lies depth by depth: packed[strip][k][row]; rows beyond
/// the source are zero.
template <class T>
void pack_strips(const Matrix<const T>& source, std::int64_t width, std::vector<T>& packed) {
    packed.resize(static_cast<std::size_t>(round_up(source.rows, width) * source.columns));
    T* out = packed.data();
    for (std::int64_t first = 0; first < source.rows; first += width) {
        const std::int64_t used = std::min(width, source.rows - first);
        for (std::int64_t k = 0; k < source.columns; ++k, out += width) {
            const T* in = &source(first, k);
            for (std::int64_t i = 0; i < used; ++i) out[i] = in[i * source.row_stride];
            std::fill(out + used, out + width, T(0));
        }
    }
}

/// One packed block of a times one packed block of b.
template <class T>
void multiply_packed(std::int64_t depth, const T* a, const T* b, const Matrix<T>& c) {
    const auto& kernels = vector_kernels<T>();
    std::vector<T> edge(static_cast<std::size_t>(kernels.tile_rows) * kernels.tile_columns);
    for (std::int64_t j = 0; j < c.columns; j += kernels.tile_columns) {
        for (std::int64_t i = 0; i < c.rows; i += kernels.tile_rows) {
            const std::int64_t rows = std::min<std::int64_t>(kernels.tile_rows, c.rows - i);
            const std::int64_t columns = std::min<std::int64_t>(kernels.tile_columns, c.columns - j);
            if (rows == kernels.tile_rows && columns == kernels.tile_columns) {
                kernels.multiply_add_tile(depth, a + i * depth, b + j * depth, &c(i, j), c.row_stride);
                continue;
            }
            std::fill(edge.begin(), edge.end(), T(0));
            kernels.multiply_add_tile(depth, a + i * depth, b + j * depth, edge.data(), kernels.tile_columns);
            for (std::int64_t row = 0; row < rows; ++row) {
                for (std::int64_t column = 0; column < columns; ++column) {
                    c(i + row, j + column) += edge[static_cast<std::size_t>(row * kernels.tile_columns + column)];
                }
            }
        }
    }
}

}  // namespace

template <class T>
void multiply_add(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c) {
    const auto& kernels = vector_kernels<T>();
    thread_local std::vector<T> packed_a;
    thread_local std::vector<T> packed_b;
    for (std::int64_t j = 0; j < c.columns; j += kColumnBlock) {
        const std::int64_t columns = std::min(kColumnBlock, c.columns - j);
        for (std::int64_t k = 0; k < a.columns; k += kDepthBlock) {
            const std::int64_t depth = std::min(kDepthBlock, a.columns - k);
            pack_strips(b.block(k, j, depth, columns).transposed(), kernels.tile_columns, packed_b);
            for (std::int64_t i = 0; i < c.rows; i += kRowBlock) {
                const std::int64_t rows = std::min(kRowBlock, c.rows - i);
                pack_strips(a.block(i, k, rows, depth), kernels.tile_rows, packed_a);
                multiply_packed(depth, packed_a.data(), packed_b.data(), c.block(i, j, rows, columns));
            }
        }
    }
}

template <class T>
void multiply_add(ThreadPool& pool, const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c) {
    const auto& kernels = vector_kernels<T>();
    if (c.rows >= c.columns) {
        pool.parallel_for(c.rows, kernels.tile_rows, [&](std::int64_t begin, std::int64_t end) {
            multiply_add(a.block(begin, 0, end - begin, a.columns), b, c.block(begin, 0, end - begin, c.columns));
        });
    } else {
        pool.parallel_for(c.columns, kernels.tile_columns, [&](std::int64_t begin, std::int64_t end) {
            multiply_add(a, b.block(0, begin, b.rows, end - begin), c.block(0, begin, c.rows, end - begin));
        });
    }
}

template void multiply_add(const Matrix<const float>&, const Matrix<const float>&, const Matrix<float>&);
template void multiply_add(const Matrix<const double>&, const Matrix<const double>&, const Matrix<double>&);
template void multiply_add(ThreadPool&, const Matrix<const float>&, const Matrix<const float>&, const Matrix<float>&);
template void multiply_add(ThreadPool&, const Matrix<const double>&, const Matrix<const double>&,
                           const Matrix<double>&);

}  // namespace gpt
