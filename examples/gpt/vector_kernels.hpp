#pragma once
#include <cstdint>

namespace gpt {

/// Beyond the end of what pack_left() and pack_right() write there must be room for this many
/// elements more.
inline constexpr std::int64_t kPackSlack = 16;

/// The inner loops, compiled once per instruction set from vector_kernels.cpp. T is float or
/// double.
template <class T>
struct VectorKernels {
    const char* instruction_set;
    int tile_rows;
    int tile_columns;
    /// c[i][j] += sum over k < depth of a[k][i] * b[k][j] for a tile of tile_rows x tile_columns; a
    /// and b are packed: a[k * tile_rows + i], b[k * tile_columns + j]. With `start`, tile_columns
    /// values, it is c[i][j] = start[j] + sum.
    void (*multiply_tile)(std::int64_t depth, const T* a, const T* b, const T* start, T* c,
                          std::int64_t c_row_stride);
    /// Cuts `strips` times `width` rows into strips that lie depth by depth:
    /// packed[(strip * depth + k) * width + i] = source[(strip * width + i) * row_stride + k *
    /// depth_stride] for i < width, k < depth; one of the strides is 1. The width is tile_rows for
    /// pack_left, tile_columns for pack_right.
    void (*pack_left)(std::int64_t strips, std::int64_t depth, const T* source,
                      std::int64_t row_stride, std::int64_t depth_stride, T* packed);
    void (*pack_right)(std::int64_t strips, std::int64_t depth, const T* source,
                       std::int64_t row_stride, std::int64_t depth_stride, T* packed);
    /// y = gelu(x), the tanh form.
    void (*gelu)(std::int64_t count, const T* x, T* y);
    /// dx = dy * gelu'(x).
    void (*gelu_backward)(std::int64_t count, const T* x, const T* dy, T* dx);
    /// x = softmax(scale * x), in place; returns log(sum(exp(scale * x))).
    T (*softmax)(std::int64_t count, T scale, T* x);
};

/// All that this build has and this CPU can run, the widest first; ends with a null pointer.
template <class T>
const VectorKernels<T>* const* usable_vector_kernels();
template <>
const VectorKernels<float>* const* usable_vector_kernels<float>();
template <>
const VectorKernels<double>* const* usable_vector_kernels<double>();

/// The widest.
template <class T>
const VectorKernels<T>& vector_kernels() {
    static const VectorKernels<T>* const widest = usable_vector_kernels<T>()[0];
    return *widest;
}

}  // namespace gpt
