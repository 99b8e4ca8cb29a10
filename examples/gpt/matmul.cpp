#include "matmul.hpp"

#include "vector_kernels.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace gpt {
namespace {

// The blocking of Goto & van de Geijn, "Anatomy of High-Performance Matrix Multiplication": a panel
// of b stays in the L2 cache and a strip of a in L1 while tiles of c are summed in registers.
constexpr std::int64_t kDepthBlock = 256;
constexpr std::int64_t kColumnBlock = 512;
constexpr std::int64_t kRowBlock = 12 * 14;  // a multiple of every kernel's tile_rows

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

/// Memory for packed blocks that a thread keeps; a block's first element is on a cache line.
template <class T>
class Packed {
public:
    T* room_for(std::int64_t count) {
        const auto bytes = static_cast<std::size_t>(count + kPackSlack) * sizeof(T) + kLine;
        if (memory_.size() < bytes)
            memory_.resize(bytes);
        const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
        return reinterpret_cast<T*>(memory_.data() + (kLine - address % kLine) % kLine);
    }

private:
    static constexpr std::size_t kLine = 64;
    std::vector<std::byte> memory_;
};

/// Copies a block of `source` so that a strip of `width` rows lies depth by depth:
/// packed[strip][k][row]; rows beyond the source are zero.
template <class T, class Pack>
void pack_strips(const Matrix<const T>& source, std::int64_t width, Pack pack, T* packed) {
    const bool in_runs = source.row_stride == 1 || source.column_stride == 1;
    const std::int64_t whole = in_runs ? source.rows / width : 0;
    pack(whole, source.columns, source.data, source.row_stride, source.column_stride, packed);
    for (std::int64_t first = whole * width; first < source.rows; first += width) {
        const std::int64_t used = std::min(width, source.rows - first);
        for (std::int64_t k = 0; k < source.columns; ++k) {
            T* out = packed + first * source.columns + k * width;
            for (std::int64_t i = 0; i < used; ++i)
                out[i] = source(first + i, k);
            std::fill(out + used, out + width, T(0));
        }
    }
}

/// A part of a product: what c starts from where it is not added to.
template <class T>
struct Start {
    bool adds = true;
    const T* bias = nullptr;  ///< by column of c; null: zeros
};

constexpr std::size_t kLargestTile = 14 * 32;  // elements

/// One packed block of a times one packed block of b.
template <class T>
void multiply_packed(std::int64_t depth, const T* a, const T* b, const Start<T>& start,
                     const Matrix<T>& c) {
    const auto& kernels = vector_kernels<T>();
    const std::int64_t tile_rows = kernels.tile_rows, tile_columns = kernels.tile_columns;
    std::array<T, kLargestTile> edge;
    std::array<T, kLargestTile> first;  // a row of a tile
    for (std::int64_t j = 0; j < c.columns; j += tile_columns) {
        const std::int64_t columns = std::min(tile_columns, c.columns - j);
        first.fill(T(0));
        if (start.bias)
            std::copy_n(start.bias + j, columns, first.begin());
        for (std::int64_t i = 0; i < c.rows; i += tile_rows) {
            const std::int64_t rows = std::min(tile_rows, c.rows - i);
            if (rows == tile_rows && columns == tile_columns) {
                kernels.multiply_tile(depth, a + i * depth, b + j * depth,
                                      start.adds ? nullptr : first.data(), &c(i, j), c.row_stride);
                continue;
            }
            kernels.multiply_tile(depth, a + i * depth, b + j * depth, first.data(), edge.data(),
                                  tile_columns);
            for (std::int64_t row = 0; row < rows; ++row) {
                T* out = &c(i + row, j);
                const T* sum = edge.data() + row * tile_columns;
                for (std::int64_t column = 0; column < columns; ++column)
                    out[column] = start.adds ? out[column] + sum[column] : sum[column];
            }
        }
    }
}

template <class T>
void run(const Matrix<const T>& a, const Matrix<const T>& b, const Start<T>& start,
         const Matrix<T>& c) {
    const auto& kernels = vector_kernels<T>();
    thread_local Packed<T> left, right;
    for (std::int64_t j = 0; j < c.columns; j += kColumnBlock) {
        const std::int64_t columns = std::min(kColumnBlock, c.columns - j);
        for (std::int64_t k = 0; k < a.columns; k += kDepthBlock) {
            const std::int64_t depth = std::min(kDepthBlock, a.columns - k);
            T* packed_b = right.room_for(round_up(columns, kernels.tile_columns) * depth);
            pack_strips<T>(b.block(k, j, depth, columns).transposed(), kernels.tile_columns,
                           kernels.pack_right, packed_b);
            const Start<T> from = k > 0 || start.adds
                                      ? Start<T>{}
                                      : Start<T>{false, start.bias ? start.bias + j : nullptr};
            for (std::int64_t i = 0; i < c.rows; i += kRowBlock) {
                const std::int64_t rows = std::min(kRowBlock, c.rows - i);
                T* packed_a = left.room_for(round_up(rows, kernels.tile_rows) * depth);
                pack_strips<T>(a.block(i, k, rows, depth), kernels.tile_rows, kernels.pack_left,
                               packed_a);
                multiply_packed<T>(depth, packed_a, packed_b, from, c.block(i, j, rows, columns));
            }
        }
    }
}

template <class T>
void run(ThreadPool& pool, const Matrix<const T>& a, const Matrix<const T>& b,
         const Start<T>& start, const Matrix<T>& c) {
    const auto& kernels = vector_kernels<T>();
    if (c.rows >= c.columns) {
        pool.parallel_for(c.rows, kernels.tile_rows, [&](std::int64_t begin, std::int64_t end) {
            run<T>(a.block(begin, 0, end - begin, a.columns), b, start,
                   c.block(begin, 0, end - begin, c.columns));
        });
    } else {
        pool.parallel_for(
            c.columns, kernels.tile_columns, [&](std::int64_t begin, std::int64_t end) {
                const Start<T> from{start.adds, start.bias ? start.bias + begin : nullptr};
                run<T>(a, b.block(0, begin, b.rows, end - begin), from,
                       c.block(0, begin, c.rows, end - begin));
            });
    }
}

}  // namespace

template <class T>
void multiply_add(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c) {
    run<T>(a, b, {}, c);
}

template <class T>
void multiply(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c) {
    run<T>(a, b, {false, nullptr}, c);
}

template <class T>
void multiply_add(ThreadPool& pool, const Matrix<const T>& a, const Matrix<const T>& b,
                  const Matrix<T>& c) {
    run<T>(pool, a, b, {}, c);
}

template <class T>
void multiply(ThreadPool& pool, const Matrix<const T>& a, const Matrix<const T>& b,
              std::span<const T> bias, const Matrix<T>& c) {
    run<T>(pool, a, b, {false, bias.empty() ? nullptr : bias.data()}, c);
}

#define GPT_INSTANTIATE(T)                                                                        \
    template void multiply_add(const Matrix<const T>&, const Matrix<const T>&, const Matrix<T>&); \
    template void multiply(const Matrix<const T>&, const Matrix<const T>&, const Matrix<T>&);     \
    template void multiply_add(ThreadPool&, const Matrix<const T>&, const Matrix<const T>&,       \
                               const Matrix<T>&);                                                 \
    template void multiply(ThreadPool&, const Matrix<const T>&, const Matrix<const T>&,           \
                           std::span<const T>, const Matrix<T>&);
GPT_INSTANTIATE(float)
GPT_INSTANTIATE(double)
#undef GPT_INSTANTIATE

}  // namespace gpt
