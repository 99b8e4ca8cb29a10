#pragma once
#include <cstdint>

namespace gpt {

/// The inner loops, compiled once per instruction set from vector_kernels.cpp. T is float or double.
template <class T>
struct VectorKernels {
    const char* instruction_set;
    int tile_rows;
    int tile_columns;
    /// c[i][j] += sum over k < depth of a[k][i] * b[k][j] for a tile of tile_rows x tile_columns; a and b are packed:
    /// a[k * tile_rows + i], b[k * tile_columns + j].
    void (*multiply_add_tile)(std::int64_t depth, const T* a, const T* b, T* c, std::int64_t c_row_stride);
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
